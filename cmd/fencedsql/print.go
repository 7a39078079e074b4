package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// printer prints the story for people, in fewer than 100 columns.
type printer struct {
	w     io.Writer
	color bool
	steps int
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
	p.field("written", shorten(r.Written), plain)
	p.args(r.Args)
	reads := slices.DeleteFunc(slices.Clone(r.Sent), func(s statement) bool { return !readsSchema(s.Text) })
	if len(reads) > 0 {
		p.field("sent", count(int64(len(reads)), "read")+" of the schema: is the table as registered? Asked once per pool", plain)
	}
	for _, s := range r.Sent {
		if readsSchema(s.Text) && s.Error == "" {
			continue
		}
		p.field("sent", shorten(s.Text), plain)
		p.args(s.Args)
		if s.Exec {
			p.field("changed", count(s.Changed, "row"), plain)
		}
		if s.Error != "" {
			p.field("error", s.Error, red)
		}
	}
}

func (p *printer) args(args []string) {
	if len(args) > 0 {
		p.field("with", shorten(strings.Join(args, ", ")), plain)
	}
}

// readsSchema tells the reads that check a table from the statements of the story.
func readsSchema(text string) bool {
	return strings.HasPrefix(text, "SELECT") && (strings.Contains(text, "pragma_") || strings.Contains(text, "sqlite_schema"))
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

var fenceLiteral = regexp.MustCompile(`'0[0-9]{39}'`)

// shorten leaves out zeros of a fence's 40 digits.
func shorten(sql string) string {
	return fenceLiteral.ReplaceAllStringFunc(sql, func(quoted string) string {
		digits := strings.TrimLeft(strings.Trim(quoted, "'"), "0")
		return "'0…0" + digits + "'"
	})
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
