// Fencedsql is the command of the fencedsql driver.
//
//	fencedsql demo [-keep]
//
// plays on a SQLite file, with real processes, how a paused worker's late write is refused.
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
	fs := flag.NewFlagSet("fencedsql", flag.ContinueOnError)
	if code, done := parse(fs, args, usage, std); done {
		return code
	}
	if fs.NArg() == 0 {
		usage(std.err)
		return exitUsage
	}
	for _, c := range commands() {
		if c.name == fs.Arg(0) {
			return c.run(fs.Args()[1:], std)
		}
	}
	fmt.Fprintf(std.err, "fencedsql: there is no command %q\n\n", fs.Arg(0))
	usage(std.err)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "Usage: fencedsql <command> [flags]")
	fmt.Fprintln(w)
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(w, "  %-8s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "fencedsql <command> -h shows a command's flags.")
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
	fmt.Fprintf(std.err, "%s: %v\n\n", fs.Name(), err)
	usage(std.err)
	return exitUsage, true
}
