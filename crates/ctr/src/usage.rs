//! What `paddlewheel fit` prints when it is called in a wrong way.

/// What the command takes.
pub(crate) const USAGE: &str = "usage: paddlewheel fit FILE --target COLUMN [options]
trains a click-through model on a CSV file, a Parquet file or a click log of Criteo
  --model lr|fm|deepfm|widedeep|dcn   deepfm unless said otherwise
  --save DIR                          where the model goes
  --test FILE                         rows to judge the model by
  --validation PART|FILE              rows that are kept back to stop early, 0.1 unless said otherwise
  --epochs N --batch_size N --learning_rate X --dim N --hidden N,N,… --l2 X --ids N --patience N --seed N
  --loss log|squared                  squared predicts numbers, not clicks
  --positive VALUE                    the value of the target that is a click
  --column NAME=number|count|category what a column is, where the guess is wrong
  --mode sync|half_async|async|geo    how workers keep step under launch_ps";
