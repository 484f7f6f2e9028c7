# shellcheck shell=bash

complete -F _psring psring psring-worker psring-ps psring-scheduler psring-bench-comm psring-bench-exchange
