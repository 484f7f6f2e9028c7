# shellcheck shell=bash
# bash completion of psring and its programs. What there is to complete is below, as the programs
# told it when psring was built (base/config/describe.h); how, is here.

declare -gA _psring_options=() _psring_values=()
declare -g _psring_places='' # options of psring run that psring bench takes

# One of the kinds of base/config/describe.h, for a word that begins with $1.
_psring_offer() {
    local kind
    for kind in $2; do
        case $kind in
        @file) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$1") ;;
        @directory) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$1") ;;
        @command) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$1") ;;
        *) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$kind" -- "$1") ;;
        esac
    done
}

# A word that goes on behind what is offered (--mode=, ssp:) gets no blank.
_psring_end() {
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[=:] ]] || compopt -o nospace
}

# The words from $1 on are psring run's program, and its arguments.
_psring_of_program() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [ "$COMP_CWORD" = "$1" ]; then
        _psring_offer "${COMP_WORDS[COMP_CWORD]}" "@command @file"
    else
        _psring_offer "${COMP_WORDS[COMP_CWORD]}" @file
    fi
}

_psring() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]##*/} i own values=''
    COMPREPLY=()
    # bash divides --name=value into three words.
    if [ "$current" = = ]; then
        current=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    # Of which program or command the words are: psring, psring train, psring bench,
    # psring-bench-comm ..
    for i in 1 2; do
        if [ "$i" -lt "$COMP_CWORD" ] && [ -n "${_psring_options[$program ${COMP_WORDS[i]}]+set}" ]; then
            program="$program ${COMP_WORDS[i]}"
        elif [ "$i" -lt "$COMP_CWORD" ] && [ "$program" = "psring bench" ]; then
            program=psring-bench-${COMP_WORDS[i]}
        fi
    done
    if [ "$program" = "psring run" ]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [ "${COMP_WORDS[i]}" = -- ]; then
                _psring_of_program $((i + 1))
                return
            fi
        done
    fi

    own=${_psring_options[$program]-}
    if [ "$program" = "psring bench train" ] ||
        { [[ $program = psring-bench-@(comm|exchange) ]] && [ "${COMP_WORDS[1]-}" = bench ]; }; then
        own="$own $_psring_places"
        [ -n "${_psring_values[$program $before]+set}" ] || values=${_psring_values[psring run $before]-}
    fi
    if [[ " $own " = *" $before= "* || ( $before = -? && -n ${_psring_values[$program $before]+set} ) ||
        ${COMP_WORDS[COMP_CWORD]} = = || ${COMP_WORDS[COMP_CWORD - 1]} = = ]]; then
        _psring_offer "$current" "${_psring_values[$program $before]-$values}"
    elif [[ $current = -* ]]; then
        _psring_offer "$current" "$own"
    else
        _psring_offer "$current" "${_psring_values[$program]-}"
    fi
    _psring_end
}

