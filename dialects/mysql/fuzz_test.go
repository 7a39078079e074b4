package mysql

import (
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/dialects"
)

// FuzzParse: whatever the text, Parse gives an error or a script whose spans
// hold together, and into which a fence can be spliced at the places it names.
// An error quotes no literal.
func FuzzParse(f *testing.F) {
	for _, c := range readCases(f, "testdata/parse.txt") {
		f.Add(c.text, uint32(c.mode))
	}
	f.Fuzz(func(t *testing.T, text string, bits uint32) {
		mode := dialects.Mode(bits) & (ansiQuotes | noBackslashEscapes | pipesAsConcat | highNotPrecedence | ignoreSpace | notUTF8)
		script, err := dialect{}.Parse(text, mode)
		if err != nil {
			if strings.Contains(err.Error(), "parser failed") {
				t.Errorf("panic at %q", text)
			}
			if strings.ContainsAny(err.Error(), "'\n") || len(err.Error()) > 200 {
				t.Errorf("error %q of %q", err, text)
			}
			return
		}
		sound(t, text, script)
		if problem := spliced(text, mode, script); problem != "" {
			t.Error(problem)
		}
	})
}
