// Fencedsql is the command of the fencedsql driver.
//
//	fencedsql demo                plays, with real processes, how a paused worker's late write is refused
//	fencedsql leases ddl          prints the tables of a lease store (package lease/sqlstore)
//	fencedsql leases list         shows who holds which key
//	fencedsql leases raise-above  makes a store safe that was restored from a backup
//
// "fencedsql help" and -h show the flags. A data source name is given by a flag or, better, in the environment, since
// other users of the machine see command lines.
//
// Exit codes: 0 is success, 1 a failure, 2 a mistake in the call or a machine that the command cannot run on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// command is a subcommand. One without a summary is not shown in the usage.
type command struct {
	name    string
	summary string
	run     func(args []string, std streams) int
}

func commands() []command {
	return []command{
		{"demo", "play the story of a paused worker whose late write is refused", demoCommand},
		{"leases", "look after a lease store: its tables, its leases, a restored one", leasesCommand},
		{name: workerCommandName, run: workerCommand},
	}
}

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

func run(args []string, std streams) int {
	return dispatch("fencedsql", commands(), args, std)
}

// dispatch runs the one of the commands that the arguments name.
func dispatch(name string, list []command, args []string, std streams) int {
	usage := func(w io.Writer) {
		fmt.Fprintf(w, "Usage: %s <command> [flags]\n\n", name)
		for _, c := range list {
			if c.summary != "" {
				fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
			}
		}
		fmt.Fprintf(w, "\n%s <command> -h shows a command's flags.\n", name)
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	if code, done := parse(fs, args, usage, std); done {
		return code
	}
	if fs.NArg() == 0 {
		usage(std.err)
		return exitUsage
	}
	if fs.Arg(0) == "help" {
		return dispatch(name, list, append(fs.Args()[1:], "-h"), std)
	}
	for _, c := range list {
		if c.name == fs.Arg(0) {
			return c.run(fs.Args()[1:], std)
		}
	}
	fmt.Fprintf(std.err, "%s: there is no command %q\n\n", name, fs.Arg(0))
	usage(std.err)
	return exitUsage
}

// parse reads the flags. If the command ends here, with help or with a mistake, done is true and code its exit code.
func parse(fs *flag.FlagSet, args []string, usage func(io.Writer), std streams) (code int, done bool) {
	fs.SetOutput(io.Discard) // package flag would send help to the same place as mistakes
	fs.Usage = func() {}
	err := fs.Parse(args)
	switch {
	case err == nil:
		return exitOK, false
	case errors.Is(err, flag.ErrHelp):
		usage(std.out)
		return exitOK, true
	}
	return misused(fs.Name(), err, usage, std), true
}

// parseAll is parse for a command that takes flags and nothing else.
func parseAll(fs *flag.FlagSet, args []string, usage func(io.Writer), std streams) (code int, done bool) {
	if code, done := parse(fs, args, usage, std); done {
		return code, done
	}
	if fs.NArg() > 0 {
		return misused(fs.Name(), fmt.Errorf("it takes no arguments, got %q", fs.Arg(0)), usage, std), true
	}
	return exitOK, false
}

// misused says what is wrong with the call.
func misused(name string, err error, usage func(io.Writer), std streams) int {
	fmt.Fprintf(std.err, "%s: %v\n\n", name, err)
	usage(std.err)
	return exitUsage
}
