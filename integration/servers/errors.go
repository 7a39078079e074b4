package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNotGiven is wrapped by the error for a kind that this package cannot
// start and that no variable of the environment gives. The error says which
// variable to set. A test of such a kind skips with the error as its reason;
// any other error of this package fails it.
var ErrNotGiven = errors.New("not given, and cannot be started here")

// ErrGiven is returned where a server of the environment was to be killed,
// restarted or started: only private servers are. Ask [Start] for one.
var ErrGiven = errors.New("servers: the environment's server is not ours to stop or start")

// MissingError tells that a private server cannot be started because a
// program, or the system's user that runs it, is not on the machine. Its text
// names the lines to run.
type MissingError struct {
	Kind Kind
	// What is missing, and where it was looked for.
	What string
	// Fix is the line to run.
	Fix string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("servers: %s: %s; run: %s, or set %s", e.Kind, e.What, e.Fix, engines[e.Kind].env)
}

// missing makes a MissingError; packages are Debian's, or "" where apt-get
// has none.
func missing(kind Kind, packages, format string, args ...any) error {
	fix := "bash " + installScript()
	if packages != "" {
		fix += " (or, as root: apt-get install -y --no-install-recommends " + packages + ")"
	}
	return &MissingError{Kind: kind, What: fmt.Sprintf(format, args...), Fix: fix}
}

// installScript is the path of .ci/install, looked for from the working folder
// upwards: go test runs in the package's.
func installScript() string {
	const script = ".ci/install"
	dir, err := os.Getwd()
	if err != nil {
		return script
	}
	for {
		path := filepath.Join(dir, script)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return script
		}
		dir = parent
	}
}

func notGiven(kind Kind) error {
	e := engines[kind]
	return fmt.Errorf("servers: %s: %w: set %s=%q, or run: docker compose up -d --wait %s (docker-compose.yml has the DSN)",
		kind, ErrNotGiven, e.env, e.example, e.service)
}
