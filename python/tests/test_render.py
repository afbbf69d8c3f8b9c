"""Clusters accept the output of `paddlewheel render`.

Kubernetes' own schemas are compared where `kubernetes-validate` is installed (`make interop` installs it). The
structure is checked here in any case, with a reader for the part of YAML that is printed.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import PACKAGES
from test_engines import no_engine  # noqa: F401

OPTIONS = ["--image", "registry/ctr:1", "--server_num", "3", "--worker_num", "2", "--storage_class", "fast"]


def render(*arguments, code=0):
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    command = [sys.executable, "-m", "paddlewheel", "render", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def scalar(text):
    """A value in one line: JSON, or JSON without quotation marks."""
    words = r'"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+(?::[^\s{}\[\],"]+)*'
    quoted = re.sub(words, lambda found: word(found.group()), text)
    return json.loads(quoted)


def word(text):
    is_json = text.startswith('"') or text in ("true", "false", "null") or re.fullmatch(r"-?\d+", text)
    return text if is_json else json.dumps(text)


def tree(lines, depth=0):
    """Nested lists and mappings from (depth, text) lines; takes what it reads."""
    found = None
    while lines and lines[0][0] >= depth:
        at, text = lines[0]
        assert at == depth, "line `%s` is %d deep, not %d" % (text, at, depth)
        if text.startswith("- "):
            found = [] if found is None else found
            lines[0] = (depth + 2, text[2:])
            inner = re.match(r"[\w-]+:( |$)", text[2:])
            found.append(tree(lines, depth + 2) if inner else scalar(lines.pop(0)[1]))
            continue
        found = {} if found is None else found
        lines.pop(0)
        name, _, value = text.partition(":")
        assert name not in found, "%s is there twice" % name
        if value.strip():
            found[name] = scalar(value.strip())
        else:
            # Lists may stand as deep as their name.
            is_list = lines and lines[0][0] == depth and lines[0][1].startswith("- ")
            found[name] = listed(lines, depth) if is_list else tree(lines, lines[0][0])
    return found


def listed(lines, depth):
    own = []
    while lines and lines[0][0] >= depth and (lines[0][0] > depth or lines[0][1].startswith("- ")):
        own.append(lines.pop(0))
    return tree(own, depth)


def documents(text):
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    parts = [part.strip("\n").splitlines() for part in re.split(r"^---$", text, flags=re.M)]
    return [tree([(len(line) - len(line.lstrip()), line.strip()) for line in part]) for part in parts]


def variables(pod):
    (container,) = pod["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def role_of(pod, name, index=None):
    """The role that a process with the environment of a pod finds, in a process of its own."""
    own = {key: value for key, value in variables(pod).items() if isinstance(value, str)}
    own.update({"HOSTNAME": name, "POD_NAME": name, "PYTHONPATH": PACKAGES})
    if index is not None:
        own["JOB_COMPLETION_INDEX"] = str(index)
    code = (
        "from paddlewheel.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker as R; r = R(); "
        "print(r.is_server(), r.worker_index(), r.worker_num(), ','.join(r.get_pserver_endpoints()))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def of_kind(found, kind):
    return [one for one in found if one["kind"] == kind]


def test_manifests_are_those_of_a_job():
    text = render("k8s", *OPTIONS, "train.py", "--x", 'a "b"')
    assert text.startswith("# Needs Kubernetes 1.29 or newer.")
    found = documents(text)
    (service,) = of_kind(found, "Service")
    assert service["spec"]["clusterIP"] == "None"
    *servers, trainers = of_kind(found, "Job")
    disks = {disk["metadata"]["name"]: disk["spec"]["accessModes"] for disk in of_kind(found, "PersistentVolumeClaim")}
    assert disks["train-output"] == ["ReadWriteMany"] and len(disks) == 4
    assert len(servers) == 3
    list_of = ",".join("train-server-%d.train:6174" % at for at in range(3))
    for at, server in enumerate(servers):
        # A Job has an end, and starts a pod again that failed.
        assert server["spec"]["backoffLimit"] == 5
        template = server["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        pod = template["spec"]
        assert (pod["restartPolicy"], pod["hostname"], pod["subdomain"]) == ("Never", "train-server-%d" % at, "train")
        places = {place["name"]: place["mountPath"] for place in pod["containers"][0]["volumeMounts"]}
        claims = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"]}
        assert disks[claims["snapshots"]] == ["ReadWriteOnce"]
        assert claims["output"] == "train-output"
        told = variables(pod)
        assert (told["FLAGS_snapshot_dir"], told["FLAGS_save_root"].split(":")[0]) == (places["snapshots"], places["output"])
        run = told["FLAGS_snapshot_run"]["fieldRef"]["fieldPath"]
        assert run == "metadata.labels['batch.kubernetes.io/controller-uid']"
        assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= set(pod["containers"][0])
        assert pod["terminationGracePeriodSeconds"] == 60
        # Pods find themselves in what they are given.
        assert role_of(pod, "train-server-%d" % at) == ["True", str(at), "2", list_of]
    job = trainers["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    command = job["template"]["spec"]["containers"][0]["command"]
    assert command == ["paddlewheel", "run", "train.py", "--x", 'a "b"']
    assert role_of(job["template"]["spec"], "train-trainer-1", 1) == ["False", "1", "2", list_of]


def pods_of(found):
    """The specifications of all pods of some objects."""
    for one in found:
        jobs = [one] if one["kind"] == "Job" else []
        jobs += [job["template"] for job in one["spec"].get("replicatedJobs", [])]
        for job in jobs:
            yield job["spec"]["template"]["spec"]


def breaches(pod):
    """The objections of the Pod Security standard "restricted" to a pod."""
    wrong = [name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    wrong += [volume["name"] for volume in pod.get("volumes", []) if not set(volume) - {"name"} <= kinds]
    own = pod.get("securityContext", {})
    for container in pod["containers"] + pod.get("initContainers", []):
        inner = container.get("securityContext", {})
        context = {**own, **inner}
        checks = {
            "privileged": not inner.get("privileged"),
            "allowPrivilegeEscalation": inner.get("allowPrivilegeEscalation") is False,
            "capabilities": inner.get("capabilities", {}).get("drop") == ["ALL"]
            and set(inner["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"},
            "runAsNonRoot": context.get("runAsNonRoot") is True,
            "runAsUser": context.get("runAsUser") != 0,
            "seccompProfile": context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        }
        wrong += [name for name, is_right in checks.items() if not is_right]
    return wrong


PODS = ["--namespace", "team", "--node_selector", "pool=train", "--node_selector", "kubernetes.io/arch=amd64"]
PODS += ["--toleration", "pool=train:NoSchedule", "--toleration", "spot", "--image_pull_secret", "registry"]
PODS += ["--run_as_user", "1234", "--data", "clicks:/clicks", "--output", "models"]


@pytest.mark.parametrize("engine, n", [("k8s", 4), ("jobset", 2)])
@pytest.mark.parametrize("options", [[], PODS], ids=["usual", "all options"])
def test_pods_pass_the_restricted_standard(engine, n, options):
    pods = list(pods_of(documents(render(engine, *OPTIONS, *options, "train.py"))))
    assert len(pods) == n and [breaches(pod) for pod in pods] == [[]] * n


@pytest.mark.parametrize("engine", ["k8s", "jobset"])
def test_where_pods_run(engine):
    text = render(engine, *OPTIONS, *PODS, "train.py")
    found = documents(text)
    assert {one["metadata"]["namespace"] for one in found} == {"team"} and "--namespace team" in text
    for pod in pods_of(found):
        assert pod["nodeSelector"] == {"pool": "train", "kubernetes.io/arch": "amd64"}
        tolerated = [{"key": "pool", "operator": "Equal", "value": "train", "effect": "NoSchedule"}]
        assert pod["tolerations"] == tolerated + [{"key": "spot", "operator": "Exists"}]
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 1234
        claims = {one["name"]: one["persistentVolumeClaim"] for one in pod["volumes"]}
        assert claims["data"] == {"claimName": "clicks", "readOnly": True} and claims["output"] == {"claimName": "models"}
        (container,) = pod["containers"]
        places = {place["name"]: place["mountPath"] for place in container["volumeMounts"]}
        assert (places["data"], places["output"]) == ("/clicks", "/output")


def test_a_jobset_has_servers_and_trainers():
    text = render("jobset", *OPTIONS, "--name", "ctr", "train.py")
    assert text.startswith("# Needs Kubernetes 1.29 and JobSet 0.8, or newer.")
    disk, output, made = documents(text)
    kinds = [one["kind"] for one in (disk, output, made)]
    assert kinds == ["PersistentVolumeClaim", "PersistentVolumeClaim", "JobSet"]
    assert made["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    # The fields of the CRD's schema that are used.
    assert set(made["spec"]) == {"network", "successPolicy", "failurePolicy", "replicatedJobs"}
    servers, trainers = made["spec"]["replicatedJobs"]
    assert (servers["name"], trainers["name"]) == ("server", "trainer")
    assert trainers["dependsOn"] == [{"name": "server", "status": "Ready"}]
    assert made["spec"]["successPolicy"]["targetReplicatedJobs"] == ["trainer"]
    for job, n in ((servers, 3), (trainers, 2)):
        assert set(job) <= {"name", "replicas", "template", "dependsOn"}
        spec = job["template"]["spec"]
        assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (n, n, "Indexed")
    volumes = servers["template"]["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == disk["metadata"]["name"]
    list_of = ",".join("ctr-server-0-%d.ctr:6174" % at for at in range(3))
    pods = [job["template"]["spec"]["template"]["spec"] for job in (servers, trainers)]
    assert role_of(pods[0], "ctr-server-0-1", 1) == ["True", "1", "2", list_of]
    assert role_of(pods[1], "ctr-trainer-0-0", 0) == ["False", "0", "2", list_of]


def test_a_script_of_slurm_is_one_for_the_shell(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(render("slurm", "--server_num", "1", "--worker_num", "3", "train.py", "two words"))
    assert subprocess.run(["sh", "-n", str(script)]).returncode == 0
    text = script.read_text()
    assert "#SBATCH --ntasks=4\n" in text and "paddlewheel run train.py 'two words'" in text


@pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None,
    reason="kubernetes-validate is not installed; make interop installs it",
)
@pytest.mark.parametrize("engine", ["k8s", "jobset"])
def test_manifests_fit_the_schemas_of_kubernetes(engine):
    import kubernetes_validate
    import yaml

    certificate = ["--tls_cert", "c", "--tls_key", "k", "--tls_ca", "a", "--log_format", "json"]
    text = render(engine, *OPTIONS, *PODS, *certificate, "train.py")
    found = list(yaml.safe_load_all(text))
    # Both readers see the same.
    assert json.dumps(found, sort_keys=True) == json.dumps(documents(text), sort_keys=True)
    for one in found:
        if one["kind"] == "JobSet":
            # The CRD is not part of Kubernetes; its jobs are.
            for job in one["spec"]["replicatedJobs"]:
                whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **job["template"]}
                kubernetes_validate.validate(whole, kubernetes_validate.latest_version(), strict=True)
            continue
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["k8s", "x.py"], "--image is missing"),
        (["k9s", "x.py"], "a similar value exists: 'k8s'"),
        ([], "<ENGINE>"),
        (["slurm", "--image", "i", "x.py"], "--image is not for jobs on slurm"),
        (["slurm", "--namespace", "n", "x.py"], "--namespace is not for jobs on slurm"),
        (["k8s", "--image", "i", "--run_as_user", "0", "x.py"], "--run_as_user is `0`"),
        (["k8s", "--image", "i", "--data", "c:data", "x.py"], "--data is `data`"),
        (["k8s", "--image", "i", "--node_selector", "x", "x.py"], "it must be KEY=VALUE"),
        (["slurm", "--tls_cert", "c", "x.py"], "--tls_key is not"),
        (["slurm", "--memory", "lots", "x.py"], "--memory is `lots`"),
        (["slurm", "--name", "A B", "x.py"], "--name is `A B`"),
        (["slurm", "--severs", "1", "x.py"], "unexpected argument '--severs'"),
    ],
)
def test_command_lines_that_make_no_sense(arguments, words):
    assert words in render(*arguments, code=2)
