import sys
mode,source=sys.argv[1:3]
sys.argv=["kills.py"]
import kills, argparse, random, os, time, shutil
o=argparse.Namespace(mode=mode,source=source,kills=1,between=[0.5,1.0],who=[],snapshot_secs=0.3)
d="/tmp/onejob"; shutil.rmtree(d,ignore_errors=True)
t=time.time()
try: kills.run(d,o,random.Random(0),0,None)
except kills.Failed as f: print(str(f)[:300])
print(mode, source, time.time()-t)
