"""Many processes and hosts for one run, by Ray: the parties' work is done elsewhere, to the same bits."""
