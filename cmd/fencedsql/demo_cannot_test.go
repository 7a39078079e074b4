//go:build !cgo || !unix || aix || netbsd

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDemoCannot: where the demo cannot run it says what is missing.
func TestDemoCannot(t *testing.T) {
	want := "cgo"
	if !canPause {
		want = "SIGSTOP"
	}
	var out, err bytes.Buffer
	code := run([]string{"demo"}, streams{strings.NewReader(""), &out, &err})
	if code != exitUsage || out.Len() > 0 || !strings.Contains(err.String(), want) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &out, &err)
	}
}
