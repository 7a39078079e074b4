package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
)

// backslashes is the Mode of a connection with standard_conforming_strings
// off, where a backslash in an ordinary '…' literal escapes what follows.
const backslashes dialects.Mode = 1

// Mode asks how the connection reads a backslash in a literal, and whether a
// byte of a character could be one.
func (dialect) Mode(ctx context.Context, q dialects.Querier) (dialects.Mode, error) {
	rows, err := q.Query(ctx, "SELECT current_setting('standard_conforming_strings'), current_setting('client_encoding')")
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 2 {
		return 0, errors.New("the server does not tell standard_conforming_strings and client_encoding")
	}
	var mode dialects.Mode
	if dialects.Text(rows[0][0]) != "on" {
		mode |= backslashes
	}
	if enc := dialects.Text(rows[0][1]); !safeEncoding(enc) {
		return 0, fmt.Errorf("client_encoding %s is not supported, since a byte of its characters may look like a backslash or a quote: set it to UTF8", enc)
	}
	return mode, nil
}

// safeEncoding knows the encodings in which a byte below 0x80 is always the
// ASCII character, https://www.postgresql.org/docs/current/multibyte.html.
func safeEncoding(enc string) bool {
	enc = strings.ToUpper(enc)
	for _, prefix := range []string{"UTF8", "SQL_ASCII", "LATIN", "WIN", "KOI8", "ISO_8859_", "EUC_"} {
		if strings.HasPrefix(enc, prefix) {
			return true
		}
	}
	return false
}

// SetsMode looks for the ways to change a setting: SET and RESET of it, SET
// NAMES, RESET ALL, DISCARD ALL, set_config and the view pg_settings. A false
// yes costs a question to the server.
func (d dialect) SetsMode(text string) bool {
	for i := range len(text) {
		rest := text[i:]
		switch rest[0] | 0x20 {
		case 's':
			if dialects.HasPrefixFold(rest, "standard_conforming_strings") || dialects.HasPrefixFold(rest, "set_config") && !setsOther(rest) {
				return true
			}
		case 'c':
			if dialects.HasPrefixFold(rest, "client_encoding") {
				return true
			}
		case 'p':
			if dialects.HasPrefixFold(rest, "pg_settings") {
				return true
			}
		case 'n':
			if dialects.HasPrefixFold(rest, "names") && setsNames(text[:i], rest) {
				return true
			}
		case 'r', 'd':
			for _, verb := range []string{"reset", "discard"} {
				if dialects.HasPrefixFold(rest, verb) {
					after := strings.TrimLeft(rest[len(verb):], spaces)
					if dialects.HasPrefixFold(after, "all") || startsComment(after) {
						return true
					}
				}
			}
		}
	}
	return d.Obscured(text)
}

const spaces = " \t\n\v\f\r"

func startsComment(s string) bool { return strings.HasPrefix(s, "/*") || strings.HasPrefix(s, "--") }

// setsOther reports whether a call of set_config names the setting by a plain
// literal, which then shows in the text.
func setsOther(call string) bool {
	arg, ok := strings.CutPrefix(strings.TrimLeft(call[len("set_config"):], spaces), "(")
	arg, quoted := strings.CutPrefix(strings.TrimLeft(arg, spaces), "'")
	end := strings.IndexByte(arg, '\'')
	return ok && quoted && end >= 0 && strings.HasPrefix(strings.TrimLeft(arg[end+1:], spaces), ",")
}

// setsNames tells SET NAMES from a column of that name.
func setsNames(before, names string) bool {
	before = strings.TrimRight(before, spaces)
	if after := strings.TrimLeft(names[len("names"):], spaces); strings.HasPrefix(after, "=") || strings.HasPrefix(after, ",") {
		return false
	}
	for _, w := range []string{"set", "session", "local", "/"} {
		if n := len(before) - len(w); n >= 0 && dialects.HasPrefixFold(before[n:], w) {
			return true
		}
	}
	return false
}
