# Runs a program that the test has put into the shared directory, with the arguments that follow its name.
program=$OUT_DIR/$1
shift
exec "$program" "$@"
