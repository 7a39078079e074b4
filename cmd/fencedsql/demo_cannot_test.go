//go:build !cgo || !unix || aix || netbsd

package main

import (
	"strings"
	"testing"
)

// TestDemoCannot: where the demo cannot run it says what is missing.
func TestDemoCannot(t *testing.T) {
	want := []string{"cgo", "-engine postgres"}
	if !canPause {
		want = []string{"SIGSTOP"}
	}
	code, out, err := call("demo")
	for _, w := range want {
		if code != exitUsage || out != "" || !strings.Contains(err, w) {
			t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, out, err, w)
		}
	}
	if canPause {
		return
	}
	code, out, err = call("demo", "-engine", "postgres", "-dsn", "postgres://127.0.0.1:1/x")
	if code != exitUsage || out != "" || !strings.Contains(err, "SIGSTOP") {
		t.Errorf("on a server: exit code %d, stdout %q, stderr %q", code, out, err)
	}
}

// TestLeasesCannot: so do the commands that open a SQLite file, and not the others.
func TestLeasesCannot(t *testing.T) {
	if cgoEnabled {
		return
	}
	for _, args := range []string{
		"leases list -engine sqlite -dsn kv.db",
		"leases raise-above -engine sqlite -dsn kv.db -fence 1",
		"leases raise-above -engine postgres -dsn postgres://127.0.0.1:1/x -from-tables a.b -data-engine sqlite -data-dsn app.db",
	} {
		code, out, err := call(strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.Contains(err, "cgo") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, out, err)
		}
	}
	if code, out, err := call("leases", "ddl", "-engine", "sqlite"); code != exitOK || out == "" || err != "" {
		t.Errorf("leases ddl: exit code %d, stdout %q, stderr %q", code, out, err)
	}
}
