package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/lease"
)

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   {""},
		"aa":                 {"aa"},
		"aa bb cc":           {"aa bb", "cc"},
		"aaaaaaaa bb":        {"aaaaaaaa", "bb"},
		"aa\nbb cc dd":       {"aa", "bb cc", "dd"},
		"ä ö ü":              {"ä ö ü"},
		"a  b":               {"a  b"}, // spaces may be in quotes
		"bb aaaaaaaa bb ccc": {"bb", "aaaaaaaa", "bb", "ccc"},
	} {
		if got := wrap(text, 5); !slices.Equal(got, want) {
			t.Errorf("wrap(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	text := func(f lease.Fence) string { return literal(f.Text()) }
	a, b := lease.Fence{Epoch: 1, Count: 10}, lease.Fence{Epoch: 1, Count: 11}
	p := newPrinter(&bytes.Buffer{})
	p.fence("A", a)
	if got := p.shorten(text(b)); got != "fenceA+1" {
		t.Errorf("shorten(A's bound) = %s", got)
	}
	p.fence("B", b)
	for in, want := range map[string]string{
		text(lease.Fence{}):                     "'0…0'",
		text(a) + ", '7', " + text(b):           "fenceA, '7', fenceB",
		text(lease.Fence{Epoch: 1, Count: 12}):  "fenceB+1",
		text(lease.Fence{Count: 10}):            text(lease.Fence{Count: 10}),
		"'0000', 0, " + strings.Repeat("0", 40): "'0000', 0, " + strings.Repeat("0", 40),
	} {
		if got := p.shorten(in); got != want {
			t.Errorf("shorten(%s) = %s, want %s", in, got, want)
		}
	}
}

// TestColor: in a terminal only. The null device stands for one, being a character device too.
func TestColor(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "") // so that it is as it was after the test
	os.Unsetenv("NO_COLOR")
	if !newPrinter(device).color {
		t.Error("no colour in a terminal")
	}
	if newPrinter(file).color || newPrinter(&bytes.Buffer{}).color {
		t.Error("colour in a file")
	}
	t.Setenv("NO_COLOR", "1")
	if newPrinter(device).color {
		t.Error("colour despite NO_COLOR")
	}
	os.Unsetenv("NO_COLOR")
	t.Setenv("TERM", "dumb")
	if newPrinter(device).color {
		t.Error("colour in a dumb terminal")
	}

	for color, want := range map[bool]string{false: "  a", true: "\x1b[31m  a\x1b[0m"} {
		if got := (&printer{color: color}).paint(red, "  a"); got != want {
			t.Errorf("paint = %q, want %q", got, want)
		}
	}
}
