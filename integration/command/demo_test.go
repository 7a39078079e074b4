package command

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencedsql/fencedsql/lease"
)

// secrets are the parts of the DSN that no output may have.
func (v *env) hides(text string) {
	v.Helper()
	for _, part := range []string{v.dsn(), v.database} {
		if strings.Contains(text, part) {
			v.Errorf("%q is in the output:\n%s", part, text)
		}
	}
}

// find returns what the pattern's group matches in the text.
func find(t testing.TB, pattern, text string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in\n%s", pattern, text)
	}
	return found[len(found)-1]
}

// TestDemo: the story is the same on every engine, and leaves nothing behind.
func TestDemo(t *testing.T) {
	each(t, func(t *testing.T, v *env) {
		v.do("CREATE TABLE chats (id BIGINT PRIMARY KEY)") // somebody else's
		out := v.must("demo")
		rest := out
		prefix := find(t, `data +(fencedsql_demo_[a-z0-9]+_)chats, `, out)
		for _, want := range []string{
			`1\. Worker A \(process \d+\) holds the key chat/42`,
			`3\. Worker B \(process \d+\) wants .*\n +called .*\n +outcome +lease: held: key "chat/42" by worker A until`,
			`4\. .*\n +outcome +process \d+ is stopped by SIGSTOP`,
			`5\. A's lease runs out, and worker B holds the key`,
			`6\. (.*\n)+ +sent +UPDATE ` + prefix + `chats SET\s+summary\s+=\s+(\$1|\?),\s+fence\s+=\s+\S+\s+WHERE\s+\(id\s+=\s+(\$2|\?)\)\s+AND\s+fence\s+<\s+\S+\n +with +'B: [^']*',[^:]*fenceB[^:]*fenceB\+1[^:]*\n +changed +1 row\n`,
			`8\. (.*\n)+ +sent +UPDATE ` + prefix + `chats SET\s+summary\s+=\s+(\$1|\?),\s+fence\s+=\s+\S+\s+WHERE\s+\(id\s+=\s+(\$2|\?)\)\s+AND\s+fence\s+<\s+\S+\n +with +'A: [^']*',[^:]*fenceA[^:]*fenceA\+1[^:]*\n +changed +0 rows\n`,
			`outcome +refused: errors.Is\(err, fencedsql.ErrFenced\)\n`,
			`9\. .*\n +called +context\.Cause\(ctx\)\n +outcome +lease: lost \(key "chat/42"\)`,
			`10\. (.*\n)+ +sent +nothing\n +outcome +context canceled`,
			`11\. .*\n +outcome +fencedsql: fenced: table [^:]*:[^:]*lease: lost`,
			`12\. .*\n +id +42\n +summary +'B: [^']*'\n +fence +'0+` + find(t, `fenceB +(\d+)\n`, out) + `'\n`,
			`A's late write changed nothing`,
		} {
			at := regexp.MustCompile(want).FindStringIndex(rest)
			if at == nil {
				t.Fatalf("no %s in the rest of the output:\n%s", want, rest)
			}
			rest = rest[at[1]:]
		}
		v.hides(out)
		if left := v.tables(); len(left) != 1 || left[0] != "chats" {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestKeep: the row is as the demo says. The DSN is a flag here.
func TestKeep(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		r := outcome(t, with(t, nil, "demo", "-keep", "--engine", v.engine.engine, "--dsn", v.dsn()))
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("exit code %d\n%s\n%s", r.code, r.out, r.stderr)
		}
		_, kept, _ := strings.Cut(r.out, "The tables are kept:\n")
		tables := strings.Fields(kept)
		if len(tables) < 4 || len(tables) != len(v.tables()) {
			t.Errorf("it says %v are kept, and there are %v", tables, v.tables())
		}
		f, err := lease.ParseFence(find(t, `fenceB +(\d+)\n`, r.out))
		if err != nil {
			t.Fatal(err)
		}
		if got := read[string](t, v.bare(), "SELECT fence FROM "+tables[0]+" WHERE id = 42 AND summary LIKE 'B: %'"); got != f.Text() {
			t.Errorf("the row has the fence %s, not %s", got, f.Text())
		}
	})
}

// watcher calls back, once, when the output has a text.
type watcher struct {
	output []byte
	text   string
	call   func()
}

func (w *watcher) Write(b []byte) (int, error) {
	w.output = append(w.output, b...)
	if w.call != nil && bytes.Contains(w.output, []byte(w.text)) {
		w.call()
		w.call = nil
	}
	return len(b), nil
}

// TestInterrupted: a demo that is ended, with one worker stopped and the other one waiting, leaves neither them nor tables.
func TestInterrupted(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		cmd := with(t, []string{"FENCEDSQL_DSN=" + v.dsn()}, "demo", "-engine", v.engine.engine)
		var seen []string
		out := &watcher{text: "is stopped by SIGSTOP", call: func() {
			seen = v.tables()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}}
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = out, &stderr
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%v\n%s", err, out.output)
		}
		if len(seen) < 4 {
			t.Errorf("there were only the tables %v", seen)
		}
		if left := v.tables(); left != nil {
			t.Errorf("left behind: %v", left)
		}
		for _, worker := range []string{"A", "B"} {
			pid, err := strconv.Atoi(find(t, `Worker `+worker+` \(process (\d+)\)`, string(out.output)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("worker %s (process %d) is there: %v", worker, pid, err)
			}
		}
		v.hides(string(out.output) + stderr.String())
	})
}

// TestNobodyReads: "fencedsql demo | head" leaves no tables behind.
func TestNobodyReads(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		cmd := with(t, []string{"FENCEDSQL_DSN=" + v.dsn()}, "demo", "-engine", v.engine.engine)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		out.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("demo: %v", err)
		}
		if left := v.tables(); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestTurnedAway: a server that lets nobody in, or lets nobody create, is an error that shows nothing of the DSN but what
// the server says itself.
func TestTurnedAway(t *testing.T) {
	eachDialect(t, func(t *testing.T, v *env) {
		for name, dsn := range map[string]string{
			"no such user":  v.dialect.user(v.dsn(), "nobody:s3cret"),
			"nothing there": v.dialect.port(v.dsn(), "1"),
			"hangs up":      v.dialect.port(v.dsn(), hangsUp(t)),
		} {
			for _, args := range [][]string{{"demo"}, {"leases", "list"}, {"leases", "raise-above", "-from-tables", "a.b"}} {
				r := outcome(t, with(t, []string{"FENCEDSQL_DSN=" + dsn}, append(args, "-engine", v.engine.engine)...))
				said := strings.Split(strings.TrimSpace(r.stderr), "\n")
				if r.code != 1 || len(said) != 1 || !strings.Contains(r.stderr, "the "+v.engine.engine+" database at the DSN cannot be reached: ") || r.out != "" {
					t.Errorf("%s: %v: exit code %d\n%s\n%s", name, args, r.code, r.out, r.stderr)
				}
				for _, part := range []string{"s3cret", dsn, v.database, "127.0.0.1:"} {
					if strings.Contains(r.stderr, part) {
						t.Errorf("%s: %q is in the error: %s", name, part, r.stderr)
					}
				}
			}
		}
		r := outcome(t, with(t, []string{"FENCEDSQL_DSN=" + v.dsn(v.dialect.readOnly)}, "demo", "-engine", v.engine.engine))
		if r.code != 1 || !regexp.MustCompile(v.dialect.cannotCreate).MatchString(r.stderr) || strings.Contains(r.stderr, "dropped") {
			t.Errorf("read only: exit code %d\n%s\n%s", r.code, r.out, r.stderr)
		}
		v.hides(r.stderr)
	})
}

// hangsUp is the port of a server that lets nobody say a word.
func hangsUp(t *testing.T) (port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
