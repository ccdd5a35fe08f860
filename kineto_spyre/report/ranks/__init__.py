"""Many ranks: which of them keep the others waiting, when, and why. `report("DIRECTORY")`.

`finding` (which files), `summary` (one trace to what travels), `reading` (all of them, here or on a Dask cluster),
`store` (DuckDB over the summaries), `comparing` (all numbers), `ranks_shown` (what a reader sees).
"""
