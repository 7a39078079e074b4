package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/lease"
)

// printer prints the story for people, in fewer than 100 columns.
type printer struct {
	w     io.Writer
	color bool
	steps int
	names []string // of fences, each after its literal
}

const (
	columns = 96
	indent  = 3
	label   = 10 // the width of a label and the space after it
)

// style is an SGR code: https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
type style string

const (
	plain style = ""
	bold  style = "1"
	faint style = "2"
	red   style = "31"
	green style = "32"
)

// newPrinter prints in colour to a terminal, unless NO_COLOR is set (https://no-color.org).
func newPrinter(w io.Writer) *printer {
	p := &printer{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		_, no := os.LookupEnv("NO_COLOR")
		p.color = err == nil && info.Mode()&os.ModeCharDevice != 0 && !no && os.Getenv("TERM") != "dumb"
	}
	return p
}

func (p *printer) paint(s style, text string) string {
	if !p.color || s == plain {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func (p *printer) title(text string) { fmt.Fprintf(p.w, "%s\n\n", p.paint(bold, text)) }

// step begins the next step.
func (p *printer) step(format string, args ...any) {
	p.steps++
	fmt.Fprintf(p.w, "\n%s\n", p.paint(bold, fmt.Sprintf("%d. "+format, append([]any{p.steps}, args...)...)))
}

// field prints a line with a label, or several if the text is long.
func (p *printer) field(name, text string, s style) {
	for i, line := range wrap(text, columns-indent-label) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(p.w, "%*s%s%s\n", indent, "", p.paint(faint, fmt.Sprintf("%-*s", label, name)), p.paint(s, line))
	}
}

// sql prints what a worker's program says and what was sent.
func (p *printer) sql(r report) {
	p.field("written", p.shorten(r.Written), plain)
	p.args(r.Args)
	if n := len(r.Asked); n > 0 {
		p.field("sent", count(int64(n), "read")+" of schema and settings, once per pool: is the table as registered?", plain)
	}
	for _, s := range r.Sent {
		p.field("sent", p.shorten(s.Text), plain)
		p.args(s.Args)
		if s.Exec {
			p.field("changed", count(s.Changed, "row"), plain)
		}
		if s.Error != "" {
			p.field("error", s.Error, red)
		}
	}
	if len(r.Asked)+len(r.Sent) == 0 {
		p.field("sent", "nothing", plain)
	}
}

// outcome prints what came of a write that is not to succeed.
func (p *printer) outcome(r report) {
	switch {
	case r.Fenced:
		p.field("outcome", "refused: errors.Is(err, fencedsql.ErrFenced)", green)
		p.field("error", r.Error, plain)
	case r.Canceled:
		p.field("outcome", r.Error+", from database/sql: it looks at the context before it sends anything", green)
	case r.Error != "":
		p.field("outcome", r.Error, red)
	default:
		p.field("outcome", count(r.Rows, "row")+" changed, no error", red)
	}
}

// lostStyle is that of an error that is to be ErrLost.
func lostStyle(r report) style {
	if r.Lost {
		return green
	}
	return red
}

// fence prints a worker's fence, and gives it its name in what follows.
func (p *printer) fence(name string, f lease.Fence) {
	p.field("fence"+name, f.String(), plain)
	names := []string{literal(f.Text()), "fence" + name}
	if bound, err := f.Next(); err == nil {
		names = append(names, literal(bound.Text()), "fence"+name+"+1")
	}
	p.names = append(names, p.names...) // the newest first: it may be the one before, plus 1
}

func (p *printer) args(args []string) {
	if len(args) > 0 {
		p.field("with", p.shorten(strings.Join(args, ", ")), plain)
	}
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// shorten puts the names of fences in the place of their 40 digits.
func (p *printer) shorten(sql string) string {
	return strings.NewReplacer(append(p.names, zeroFence, "'0…0'")...).Replace(sql)
}

// wrap breaks each line of a text at its spaces. A word that is longer than the width stays whole.
func wrap(text string, width int) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Split(line, " ")
		line = words[0]
		for _, word := range words[1:] {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
				line += " " + word
				continue
			}
			lines = append(lines, line)
			line = word
		}
		lines = append(lines, line)
	}
	return lines
}
