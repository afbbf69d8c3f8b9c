"""The pipe command of `train_fleet.py`: click logs on standard input, samples on standard output."""

from criteo_reader import CriteoReader

N_IDS = 1000001

if __name__ == "__main__":
    CriteoReader(N_IDS).run_from_stdin()
