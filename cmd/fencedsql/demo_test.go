//go:build cgo && unix && !aix && !netbsd

package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	fencedsql "github.com/fencedsql/fencedsql/driver"
	"github.com/fencedsql/fencedsql/lease"
)

// asCommand: the test binary is the command and nothing else.
const asCommand = "command"

// runDemo runs the command as a process, with a folder for temporary files of its own.
func runDemo(t *testing.T, as string, args ...string) (code int, stdout, stderr, tmp string) {
	t.Helper()
	// The characters have a meaning in a URI and in go-sqlite3's data source names.
	tmp = filepath.Join(t.TempDir(), "a b?c%41&d#e")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(executable(t), append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), asEnv+"="+as, "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), tmp
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestDemo: the output tells the story, in order.
func TestDemo(t *testing.T) {
	code, out, stderr, tmp := runDemo(t, asCommand)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	rest := out
	for _, want := range []string{
		`(?m)^1\. Worker A \(process \d+\) claims the row: fence 1$`,
		`written +fencedsql.Claim\(ctx, db, "chats", 42\)`,
		`(?m)^2\. Worker A begins`,
		`written +SELECT body FROM messages WHERE chat = \? ORDER BY id\n +with +42\n +sent +SELECT body FROM messages WHERE chat = \? ORDER BY id\n +with +42\n`,
		`(?m)^3\. .*SIGSTOP.*\n +outcome +process \d+ is stopped by SIGSTOP`,
		`(?m)^4\. Worker B \(process \d+\) .* claims the row: fence 2$`,
		`(?m)^5\. Worker B .* under fence 2$`,
		`written +UPDATE chats SET summary = \? WHERE id = \?\n`,
		`sent +UPDATE chats SET summary = \?, fence = \? WHERE \(id = \?\) AND fence < \?\n +with +'B: [^']*',\s+'0…02', 42, '0…03'\n +changed +1 row\n`,
		`(?m)^6\. .*SIGCONT`,
		`(?m)^7\. Worker A .*late.*: fence 1$`,
		`written +UPDATE chats SET summary = \? WHERE id = \?\n`,
		`sent +UPDATE chats SET summary = \?, fence = \? WHERE \(id = \?\) AND fence < \?\n +with +'A: [^']*',\s+'0…01', 42, '0…02'\n +changed +0 rows\n`,
		`outcome +refused: errors.Is\(err, fencedsql.ErrFenced\)\n +error +fencedsql: fenced: table chats: the lease has fence 1, the row has 2\n`,
		`(?m)^8\. The row .*\n +id +42\n +summary +'B: [^']*'\n +fence +'0{39}2'\n`,
		`A's late write changed nothing`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %s in the rest of the output:\n%s", want, rest)
		}
		rest = rest[at[1]:]
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(line) - 1; n >= 100 && !strings.Contains(line, tmp) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colour in a pipe")
	}
	if left := filesIn(t, tmp); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestKeep(t *testing.T) {
	code, out, stderr, tmp := runDemo(t, asCommand, "-keep")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	path := lines[len(lines)-1]
	if !strings.HasPrefix(path, tmp) {
		t.Fatalf("the last line is no path in %s: %q", tmp, path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", dataSource(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := row{summaryB, lease.Fence{Count: 2}.Text()}
	if got, n, err := readRow(t.Context(), db); got != want || n != 1 || err != nil {
		t.Errorf("row %+v of %d, %v; want %+v", got, n, err, want)
	}
}

// TestNobodyReads: "fencedsql demo | head" leaves no folder behind.
func TestNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	tmp := t.TempDir()
	cmd := exec.Command(executable(t), "demo")
	cmd.Env = append(os.Environ(), asEnv+"="+asCommand, "TMPDIR="+tmp)
	cmd.Stdout = w
	if err := cmd.Run(); err != nil {
		t.Errorf("demo: %v", err)
	}
	if left := filesIn(t, tmp); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestBrokenOutcome: the exit code follows what is in the database and what the processes do.
func TestBrokenOutcome(t *testing.T) {
	for as, want := range map[string]struct{ out, err string }{
		asEscape: {"This is not what is promised:", "the outcome is not the promised one"},
		asNoise:  {"", "invalid character"},
	} {
		t.Run(as, func(t *testing.T) {
			code, out, stderr, tmp := runDemo(t, as)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(out, want.out) || !strings.Contains(stderr, want.err) || strings.Contains(out, "changed nothing") {
				t.Errorf("stdout:\n%s\nstderr:\n%s", out, stderr)
			}
			if as == asEscape && !regexp.MustCompile(`- +the row has the summary "A: [^"]*",\s+not\s+B's`).MatchString(out) {
				t.Errorf("the judgement does not name the summary:\n%s", out)
			}
			if left := filesIn(t, tmp); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// gone says that there is no such process, not even one that nobody has waited for.
func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// watcher passes the output on and calls back, once, when it has a text.
type watcher struct {
	bytes.Buffer
	text string
	call func()
	once sync.Once
}

func (w *watcher) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if strings.Contains(w.String(), w.text) {
		w.once.Do(w.call)
	}
	return n, err
}

// TestHang: a worker that does not answer, and one that is stopped meanwhile, are gone when the demo ends.
func TestHang(t *testing.T) {
	late := errors.New("late")
	t.Run("both", func(t *testing.T) {
		t.Setenv(asEnv, asHang)
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancelCause(t.Context())
		err := demo(ctx, &watcher{text: "row ", call: func() { cancel(late) }}, false)
		if !errors.Is(err, late) {
			t.Fatalf("demo: %v", err)
		}
		pid := regexp.MustCompile(`worker A \(process (\d+)\)`).FindStringSubmatch(err.Error())
		if pid == nil {
			t.Fatalf("the error does not name the process: %v", err)
		}
		if n, _ := strconv.Atoi(pid[1]); !gone(n) {
			t.Errorf("process %d is there", n)
		}
		if left := filesIn(t, os.Getenv("TMPDIR")); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("B, A stopped", func(t *testing.T) {
		t.Setenv(asEnv, asHangB)
		ctx, cancel := context.WithCancelCause(t.Context())
		out := &watcher{text: "stopped by SIGSTOP", call: func() { cancel(late) }}
		s, err := play(ctx, newPrinter(out), executable(t), filepath.Join(t.TempDir(), "demo.db"))
		if !errors.Is(err, late) {
			t.Fatalf("play: %v\n%s", err, out)
		}
		if s.pidA == 0 || s.pidB == 0 || !gone(s.pidA) || !gone(s.pidB) {
			t.Errorf("A (process %d) gone: %t, B (process %d) gone: %t", s.pidA, gone(s.pidA), s.pidB, gone(s.pidB))
		}
	})
}

// TestLate: a demo that is ended in a call of the database says why, too.
func TestLate(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := demo(ctx, io.Discard, false); !errors.Is(err, late) {
		t.Errorf("demo: %v", err)
	}
}

// TestKill: whatever state a process is in.
func TestKill(t *testing.T) {
	t.Setenv(asEnv, asHang)
	path := filepath.Join(t.TempDir(), "demo.db")
	for name, before := range map[string]func(*process) error{
		"running": func(*process) error { return nil },
		"stopped": func(p *process) error { _, err := p.pause(t.Context()); return err },
		"resumed": func(p *process) error {
			_, err := p.pause(t.Context())
			_, err2 := p.resume()
			return errors.Join(err, err2)
		},
		"ended": func(p *process) error {
			err := p.os.Kill()
			_, err2 := p.wait(t.Context())
			return errors.Join(err, err2)
		},
		"killed": func(p *process) error { return p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			p, err := start(executable(t), "A", path)
			if err != nil {
				t.Fatal(err)
			}
			if err := before(p); err != nil {
				t.Error(err)
			}
			if err := p.kill(); err != nil {
				t.Error(err)
			}
			if !gone(p.pid) {
				t.Error("it is there")
			}
		})
	}
}

// TestResumeNotices: somebody else continued the process.
func TestResumeNotices(t *testing.T) {
	t.Setenv(asEnv, asHang)
	p, err := start(executable(t), "A", filepath.Join(t.TempDir(), "demo.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if s, err := p.pause(t.Context()); !s.stopped || err != nil {
		t.Fatalf("pause: %+v, %v", s, err)
	}
	if err := p.os.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s := <-p.states
	if s != (state{text: "continued"}) {
		t.Fatalf("state %+v", s)
	}
	// As it would be found: not yet received.
	real, states := p.states, make(chan state, 1)
	states <- s
	p.states = states
	undisturbed, err := p.resume()
	p.states = real
	if undisturbed || err != nil {
		t.Errorf("resume: %t, %v", undisturbed, err)
	}
}

func TestStateOf(t *testing.T) {
	stopped := func(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s)<<8 | 0x7f }
	for _, tt := range []struct {
		ws   syscall.WaitStatus
		want state
	}{
		{0, state{ended: true, clean: true, text: "exit status 0"}},
		{2 << 8, state{ended: true, text: "exit status 2"}},
		{syscall.WaitStatus(syscall.SIGKILL), state{ended: true, text: "ended by the signal " + strconv.Quote(syscall.SIGKILL.String())}},
		{stopped(syscall.SIGSTOP), state{stopped: true, text: "stopped by SIGSTOP"}},
		{stopped(syscall.SIGTRAP), state{text: "stopped by the signal " + strconv.Quote(syscall.SIGTRAP.String())}},
		{0xffff, state{text: "continued"}},                   // Linux
		{stopped(syscall.SIGCONT), state{text: "continued"}}, // macOS
	} {
		if got := stateOf(tt.ws); got != tt.want {
			t.Errorf("%#x: %+v, want %+v", uint32(tt.ws), got, tt.want)
		}
	}
}

// TestJudge: what a real run gives is right, and each thing that differs is noticed.
func TestJudge(t *testing.T) {
	t.Setenv(asEnv, asCommand)
	good, err := play(t.Context(), newPrinter(io.Discard), executable(t), filepath.Join(t.TempDir(), "demo.db"))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := judge(good); wrong != nil {
		t.Fatalf("the real run is judged wrong: %q", wrong)
	}
	failed := func(r *report) { r.fail(errors.New("other")) }
	for name, tt := range map[string]struct {
		change func(*story)
		want   string
	}{
		"nothing happened":          {func(s *story) { *s = story{} }, "not two processes"},
		"row with a summary":        {func(s *story) { s.before.Summary = "x" }, "the row was not new"},
		"row with a fence":          {func(s *story) { s.before.Fence = lease.Fence{Count: 7}.Text() }, "the row was not new"},
		"row without a fence":       {func(s *story) { s.before.Fence = "x" }, "the row was not new"},
		"one process":               {func(s *story) { s.pidB = s.pidA }, "not two processes"},
		"claim A failed":            {func(s *story) { failed(&s.claimA) }, "A claimed the row"},
		"claim A without a fence":   {func(s *story) { s.claimA.Fence = lease.Fence{} }, "A claimed the row"},
		"claim A with a wrong one":  {func(s *story) { s.claimA.Fence.Count++ }, "A claimed the row"},
		"read A failed":             {func(s *story) { failed(&s.readA) }, "A read"},
		"read A of nothing":         {func(s *story) { s.readA.Rows = 0 }, "A read 0 messages"},
		"read A of another text":    {func(s *story) { s.readA.Sent[0].Text += " " }, "not sent as it is written"},
		"read A of other arguments": {func(s *story) { s.readA.Sent[0].Args[0] = "43" }, "not sent as it is written"},
		"read A sent twice":         {func(s *story) { s.readA.Sent = append(s.readA.Sent, s.readA.Sent...) }, "not sent as it is written"},
		"A ended":                   {func(s *story) { s.pausedA = state{ended: true, text: "exit status 0"} }, "A was not stopped: exit status 0"},
		"A continued":               {func(s *story) { s.stayedA = false }, "A did not stay stopped"},
		"claim B failed":            {func(s *story) { failed(&s.claimB) }, "B claimed the row"},
		"claim B with A's fence":    {func(s *story) { s.claimB.Fence = s.claimA.Fence }, "B claimed the row"},
		"read B failed":             {func(s *story) { failed(&s.readB) }, "B read"},
		"write B failed":            {func(s *story) { failed(&s.writeB) }, "B did not write one row"},
		"write B of no row":         {func(s *story) { s.writeB.Rows = 0 }, "B did not write one row"},
		"write B with A's fence":    {func(s *story) { s.writeB.Fence = s.claimA.Fence }, "B did not write one row"},
		"write B of A's summary":    {func(s *story) { s.writeB.Args[0] = literal(summaryA) }, "B did not write its summary"},
		"write B not sent":          {func(s *story) { s.writeB.Sent = nil }, "nothing was sent"},
		"write B sent bare":         {func(s *story) { s.writeB.Sent[0].Text = writeSQL }, "without the fence"},
		"write B changed nothing":   {func(s *story) { s.writeB.Sent[0].Changed = 0 }, "B's write changed 0 rows"},
		"write A passed":            {func(s *story) { s.writeA.Error, s.writeA.Fenced, s.writeA.Refusal, s.writeA.Rows = "", false, nil, 1 }, "was not refused"},
		"write A failed otherwise":  {func(s *story) { s.writeA.Refusal = nil; failed(&s.writeA) }, "was not refused"},
		"write A without an error":  {func(s *story) { s.writeA.Error = "" }, "does not name the fences"},
		"write A refused, and one":  {func(s *story) { s.writeA.Rows = 1 }, "was not refused"},
		"write A with a new fence":  {func(s *story) { s.writeA.Fence = s.claimB.Fence }, "not with its old lease's"},
		"write A of B's summary":    {func(s *story) { s.writeA.Args[0] = literal(summaryB) }, "A did not write its summary"},
		"write A not sent":          {func(s *story) { s.writeA.Sent = nil }, "nothing was sent"},
		"write A sent bare":         {func(s *story) { s.writeA.Sent[0].Text = writeSQL }, "without the fence"},
		"write A changed the row":   {func(s *story) { s.writeA.Sent[0].Changed = 1 }, "A's write changed 1 rows"},
		"no FencedError":            {func(s *story) { s.writeA.Refusal = nil }, "no *FencedError"},
		"refusal of another fence":  {func(s *story) { s.writeA.Refusal.Fence.Count = 9 }, "does not name the fences"},
		"refusal by another fence":  {func(s *story) { s.writeA.Refusal.Stored.Count = 9 }, "does not name the fences"},
		"refusal of another table":  {func(s *story) { s.writeA.Refusal.Table = "users" }, "names table"},
		"refusal of another lease":  {func(s *story) { s.writeA.Refusal.Lease = "chats/43" }, "names table"},
		"end A":                     {func(s *story) { s.endA = state{ended: true, text: "exit status 1"} }, "A ended with exit status 1"},
		"end B":                     {func(s *story) { s.endB = state{ended: true, text: "exit status 1"} }, "B ended with exit status 1"},
		"row of A":                  {func(s *story) { s.after.Summary = summaryA }, "not B's"},
		"row with A's fence":        {func(s *story) { s.after.Fence = s.claimA.Fence.Text() }, "not B's"},
		"row with a short fence":    {func(s *story) { s.after.Fence = "2" }, "not B's"},
		"another row":               {func(s *story) { s.rowsAfter = 2 }, "2, not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			for _, r := range []*report{&s.claimA, &s.readA, &s.claimB, &s.readB, &s.writeB, &s.writeA} {
				r.Args, r.Sent = slices.Clone(r.Args), slices.Clone(r.Sent)
				for i := range r.Sent {
					r.Sent[i].Args = slices.Clone(r.Sent[i].Args)
				}
				if r.Refusal != nil {
					refusal := *r.Refusal
					r.Refusal = &refusal
				}
			}
			tt.change(&s)
			if wrong := judge(s); !strings.Contains(strings.Join(wrong, "\n"), tt.want) {
				t.Errorf("judged %q, want %q", wrong, tt.want)
			}
		})
	}
	if wrong := judge(good); wrong != nil {
		t.Errorf("the cases above changed the story: %q", wrong)
	}
}

// TestRecorder: what is sent without going through Exec and Query shows too, and errors do.
func TestRecorder(t *testing.T) {
	recorder := &recorder{}
	c, err := fencedsql.NewConnector(recordingConnector{dataSource(filepath.Join(t.TempDir(), "r.db")), recorder}, fencedsql.WithTables(chats))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (a)"); err != nil {
		t.Fatal(err)
	}
	st, err := db.Prepare("INSERT INTO t VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := db.Exec("INSERT INTO t VALUES (?), (?), (?)", "it's", nil, 4); err != nil {
		t.Fatal(err)
	}
	_, none := db.Exec("INSERT INTO none VALUES (1)")
	if none == nil {
		t.Fatal("no error")
	}
	want := []statement{
		{Text: "CREATE TABLE t (a)", Args: []string{}, Exec: true},
		{Text: "INSERT INTO t VALUES (?)"},
		{Text: "INSERT INTO t VALUES (?), (?), (?)", Args: []string{"'it''s'", "NULL", "4"}, Exec: true, Changed: 3},
		{Text: "INSERT INTO none VALUES (1)", Args: []string{}, Exec: true, Error: none.Error()},
	}
	same := func(a, b statement) bool {
		args := slices.Equal(a.Args, b.Args)
		a.Args, b.Args = nil, nil
		return args && a.Text == b.Text && a.Exec == b.Exec && a.Changed == b.Changed && a.Error == b.Error
	}
	if got := recorder.take(); !slices.EqualFunc(got, want, same) {
		t.Errorf("recorded %+v\nwant %+v", got, want)
	}
	if got := recorder.take(); got != nil {
		t.Errorf("recorded twice: %+v", got)
	}
}
