//go:build !linux

package servers

import (
	"context"
	"errors"
	"runtime"
	"syscall"
)

// Private servers need Linux's death signal and /proc. Everywhere else the
// environment gives the servers.

var errLinuxOnly = errors.New("servers are started on Linux only, not on " + runtime.GOOS + ": docker compose up -d --wait, and set the variables that docker-compose.yml names")

type account struct{}

func accountFor(Kind, string, string) (*account, error) { return nil, errLinuxOnly }

func (*account) own(string) error { return errLinuxOnly }

func run(context.Context, []string, string, string, *account) error { return errLinuxOnly }

type process struct {
	pid  int
	done chan struct{}
	err  error
}

func spawn([]string, string, string, *account, syscall.Signal) (*process, error) {
	return nil, errLinuxOnly
}

func (*process) ended() bool               { return true }
func (*process) stop(syscall.Signal) error { return errLinuxOnly }
func (*process) kill() error               { return errLinuxOnly }

func newServerDir(*launcher) (string, error) { return "", errLinuxOnly }
func removeServerDir(string) error           { return nil }
func removeScratch() error                   { return nil }
