"""The files that `plait init` writes."""

JOB = """\
# The job: the same file at every party. It holds nothing private.
format = 1
name = "credit"
parties = ["bank", "shop"]       # who brings columns; lower-case letters, digits and hyphens

[coordinator]                    # the label party (active party, guest); the others only dial out
name = "bank"                    # its certificate must carry this name
address = "127.0.0.1:7443"       # host:port that every party can reach: the one inbound port of the job
patience = 600                   # seconds that a party may be missing before the run ends

# [alignment]                    # find the common rows first, privately; without it all files must hold the same rows
# trim = true                    # compare ids without white space at their ends,
# case = "keep"                  # "fold": without regard to upper and lower case,
# unicode = "NFC"                # in this normal form: "NFC", "NFKC" or "none"
# min_rows = 100                 # refuse to go on with fewer common samples
# max_rows = 100_000_000         # refuse a party that brings more ids

[model]
loss = "logistic"                # {losses}; options: loss = {{ name = "huber", delta = 1.5 }}
penalty = {{ name = "l2", alpha = 1e-4 }}
                                 # {penalties}; a list adds them
intercept = true
# weighted = true                # the label party's file names a column of sample weights; every party is told them
# [model.penalties]              # another penalty for one party
# shop = {{ name = "l1", alpha = 1e-3 }}

[method]
name = "auto"                    # the one with the fewest rounds; or {methods}, with their options

[stopping]
max_rounds = 200
tol = 1e-6                       # relative residuals
# max_seconds = 600.0            # whichever comes first
# objective = 0.1
# lyapunov = 1e-8
# guarded = true                 # end a run that diverges with an error

# [privacy]                      # who protects what; every party's own file says what it will spend in all
# parties = {{ shop = {{ name = "recommended", epsilon = 1.0 }} }}
                                 # {mechanisms}; those not named protect nothing
# labels = {{ name = "randomised-response", epsilon = 2.0 }}      # {label_mechanisms}
# offset = true                  # helpers get the unprotected parties' score of each record; if not, labels only
# disjoint = false               # true: no two helpers hold the same signal, which saves a release

[run]
threads = 1                      # BLAS threads per process; the same everywhere, so that the numbers repeat
wire = "float64"                 # "float32" sends half the bytes, "int16" a quarter
"""

PARTY = """\
# What {name} keeps to itself: no other party sees this file.
runs = "runs"                    # where run folders go; paths are relative to this file

[data]
file = "{name}.csv"              # CSV, Parquet, LIBSVM (.svm, .libsvm) or NumPy (.npy, .npz)
id = "customer"                  # the column that names the rows, or a list of columns
repeated_ids = "refuse"          # before an alignment; "first" keeps the first row of each id, "drop" drops them all
missing_ids = "refuse"           # before an alignment; "drop" drops rows without an id
{label}
columns = []                     # the columns to use; empty for all others
drop = []                        # columns to leave out
score = "{name}-new.csv"         # new rows for `plait predict` and `plait evaluate`

[prepare]                        # fitted on these rows only, saved with the weights
impute = "mean"                  # "none" refuses missing numbers; or "median", "zero"
scale = "standard"               # or "minmax", "maxabs" (keeps sparse data sparse), "none", "ranges"
# ranges = {{ orders = [-4, 4] }}  # for "ranges": each column's low and high, known without the data
one_hot = [{one_hot}]            # columns that become one 0/1 column per value
# categories = {{ region = ["north", "south"] }}      # values of one_hot columns that are known without the data
# transformer = "sklearn.preprocessing:QuantileTransformer"    # any scikit-learn transformer, applied last
# options = {{ n_quantiles = 100 }}

[trust]
min_columns = 2                  # with fewer columns this party refuses to start: what it sends would show them
max_queries = 0                  # scores that it gives a prediction service per minute; 0 for no limit

# [privacy]                      # where the job protects this party's features or labels
# epsilon = 3.0                  # what it will spend on these data, over all jobs and runs; its ledger enforces it
# delta = 1e-5
# ledger = "ledgers"             # the ledgers and the secret of the noise: nobody else may read or write there
# test_noise = 0                 # a seed, for tests only: whoever knows it can remove the noise

[network]
certificates = "certs"           # the folder with ca.crt, {name}.crt and {name}.key: see `plait cert`
{listen}
"""

LABEL = """label = "default"                # the label column (coordinator only)
# weight = ""                    # a column of sample weights (coordinator only, with model.weighted in the job)"""
NO_LABEL = 'label = ""                       # the label column (coordinator only)'
LISTEN = 'listen = ""                      # host:port to listen on; empty for all interfaces, at the job\'s port'
NO_LISTEN = 'listen = ""                      # only the coordinator listens'
