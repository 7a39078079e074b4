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
		`(?m)^1\. Worker A \(process \d+\) holds the key chat/42: its lease is for 1s, and renewed$`,
		`called +summaries\.Hold\(ctx, "chat/42", work\)\n +fenceA +\d+\n`,
		`(?m)^2\. Worker A begins .* under fenceA$`,
		`written +SELECT body FROM messages WHERE chat = \? ORDER BY id\n +with +42\n +sent +SELECT body FROM messages WHERE chat = \? ORDER BY id\n +with +42\n`,
		`(?m)^3\. Worker B \(process \d+\) wants the key`,
		`outcome +lease: held: key "chat/42" by worker A until`,
		`(?m)^4\. .*SIGSTOP.*\n +outcome +process \d+ is stopped by SIGSTOP`,
		`(?m)^5\. A's lease runs out, and worker B holds the key, having waited for .*s$`,
		`fenceB +\d+\n`,
		`(?m)^6\. Worker B .* under fenceB$`,
		`written +UPDATE chats SET summary = \? WHERE id = \?\n`,
		`sent +UPDATE chats SET summary = \?, fence = \? WHERE \(id = \?\) AND fence < \?\n +with +'B: [^']*',\s+fenceB, 42, fenceB\+1\n +changed +1 row\n`,
		`(?m)^7\. .*SIGCONT`,
		`(?m)^8\. Worker A .*late.*: fenceA$`,
		`written +UPDATE chats SET summary = \? WHERE id = \?\n`,
		`sent +UPDATE chats SET summary = \?, fence = \? WHERE \(id = \?\) AND fence < \?\n +with +'A: [^']*',\s+fenceA, 42, fenceA\+1\n +changed +0 rows\n`,
		`outcome +refused: errors.Is\(err, fencedsql.ErrFenced\)\n +error +fencedsql: fenced: table chats: the lease has fence\s+\d+, the row has \d+\n`,
		`(?m)^9\. .*context.*\n +called +context\.Cause\(ctx\)\n +outcome +lease: lost \(key "chat/42"\)`,
		`(?m)^10\. .*\n +context +ctx\n +written +UPDATE chats SET summary = \? WHERE id = \?\n +with .*\n +sent +nothing\n +outcome +context canceled`,
		`(?m)^11\. Worker A's Hold .*\n +outcome +fencedsql: fenced: table chats: [^:]*lease: lost \(key "chat/42"\)`,
		`(?m)^12\. The row .*\n +id +42\n +summary +'B: [^']*'\n +fence +'\d{40}'\n`,
		`A's late write changed nothing`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %s in the rest of the output:\n%s", want, rest)
		}
		rest = rest[at[1]:]
	}
	// The fences that are printed are those of the error and of the row.
	fence := func(worker string) string {
		return regexp.MustCompile(`fence` + worker + ` +(\d+)\n`).FindStringSubmatch(out)[1]
	}
	for _, want := range []string{
		`the lease has fence\s+` + fence("A") + `, the row has ` + fence("B") + `\n`,
		`fence +'0+` + fence("B") + `'\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in the output:\n%s", want, out)
		}
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
	kept := lines[len(lines)-2:]
	for i, name := range []string{"kv.db", "app.db"} {
		if !strings.HasPrefix(kept[i], tmp) || filepath.Base(kept[i]) != name {
			t.Fatalf("no path of %s in %s: %q", name, tmp, kept[i])
		}
		if _, err := os.Stat(kept[i]); err != nil {
			t.Fatal(err)
		}
	}
	fenceB := regexp.MustCompile(`fenceB +(\d+)\n`).FindStringSubmatch(out)
	f, err := lease.ParseFence(fenceB[1])
	if err != nil {
		t.Fatal(err)
	}
	want := row{summaryB, f.Text()}
	if got, n, err := stageAt(t, filepath.Dir(kept[1])).readRow(t.Context()); got != want || n != 1 || err != nil {
		t.Errorf("row %+v of %d, %v; want %+v", got, n, err, want)
	}
}

// stageAt is where SQLite's demo is played in a folder.
func stageAt(t *testing.T, dir string) *stage {
	t.Helper()
	s := &stage{engine: engines[0], scene: newScene(engines[0], "", dir)}
	var err error
	if s.data, err = s.engine.open(t.Context(), s.Data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.data.Close() })
	return s
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
		asEscape:    {`This is not what is promised:(?s:.*)- +the row has the summary "A: [^"]*",\s+not\s+B's`, `the outcome is not the promised one`},
		asTwoStores: {`2\. Worker A begins`, `worker B \(process \d+\): it does not find the key held by A`},
		asNoise:     {``, `worker A \(process \d+\): step "hold": invalid character`},
	} {
		t.Run(as, func(t *testing.T) {
			code, out, stderr, tmp := runDemo(t, as)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			if !regexp.MustCompile(want.out).MatchString(out) || !regexp.MustCompile(want.err).MatchString(stderr) || strings.Contains(out, "changed nothing") {
				t.Errorf("stdout:\n%s\nstderr:\n%s", out, stderr)
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
		err := demo(ctx, &watcher{text: "row ", call: func() { cancel(late) }}, engines[0], "", false)
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
	t.Run("A stopped, B waiting", func(t *testing.T) {
		t.Setenv(asEnv, asCommand)
		ctx, cancel := context.WithCancelCause(t.Context())
		out := &watcher{text: "stopped by SIGSTOP", call: func() { cancel(late) }}
		s, err := play(ctx, newPrinter(out), executable(t), stageAt(t, t.TempDir()))
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
	if err := demo(ctx, io.Discard, engines[0], "", false); !errors.Is(err, late) {
		t.Errorf("demo: %v", err)
	}
}

// TestKill: whatever state a process is in.
func TestKill(t *testing.T) {
	t.Setenv(asEnv, asHang)
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
			p, err := start(executable(t), job{Worker: "A"})
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
	p, err := start(executable(t), job{Worker: "A"})
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
	if s != (state{continued: true, text: "continued"}) {
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
		{0xffff, state{continued: true, text: "continued"}},                   // Linux
		{stopped(syscall.SIGCONT), state{continued: true, text: "continued"}}, // macOS
	} {
		if got := stateOf(tt.ws); got != tt.want {
			t.Errorf("%#x: %+v, want %+v", uint32(tt.ws), got, tt.want)
		}
	}
}

// TestPauseUnless: a worker that would keep others waiting is continued and stopped again.
func TestPauseUnless(t *testing.T) {
	t.Setenv(asEnv, asHang)
	p, err := start(executable(t), job{Worker: "A"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	calls := 0
	s, err := p.pauseUnless(t.Context(), func(context.Context) (bool, error) {
		calls++
		return calls < 3, nil
	})
	if err != nil || !s.stopped || calls != 3 {
		t.Errorf("state %+v after %d calls, %v", s, calls, err)
	}
	if undisturbed, err := p.resume(); !undisturbed || err != nil {
		t.Errorf("it did not stay stopped: %t, %v", undisturbed, err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	late, broken := errors.New("late"), errors.New("broken")
	if _, err := p.pauseUnless(ctx, func(context.Context) (bool, error) { cancel(late); return true, nil }); !errors.Is(err, late) {
		t.Errorf("it never finds a moment: %v", err)
	}
	if _, err := p.pauseUnless(t.Context(), func(context.Context) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("it cannot know the moment: %v", err)
	}
}

// TestLocked: whoever is in the middle of a write keeps the store's file locked.
func TestLocked(t *testing.T) {
	s := stageAt(t, t.TempDir())
	db, err := s.engine.open(t.Context(), s.Leases)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, want := range []bool{false, true, false} {
		if want {
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.locked(t.Context()); got != want || err != nil {
			t.Errorf("locked: %t, %v; want %t", got, err, want)
		}
		if want {
			if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestJudge: what a real run gives is right, and each thing that differs is noticed.
func TestJudge(t *testing.T) {
	t.Setenv(asEnv, asCommand)
	good, err := play(t.Context(), newPrinter(io.Discard), executable(t), stageAt(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := judge(good); wrong != nil {
		t.Fatalf("the real run is judged wrong: %q", wrong)
	}
	failed := func(r *report) { r.Refusal = nil; r.fail(errors.New("other")) }
	for name, tt := range map[string]struct {
		change func(*story)
		want   string
	}{
		"nothing happened":          {func(s *story) { *s = story{} }, "not two processes"},
		"row with a summary":        {func(s *story) { s.before.Summary = "x" }, "the row was not new"},
		"row with a fence":          {func(s *story) { s.before.Fence = lease.Fence{Count: 7}.Text() }, "the row was not new"},
		"row without a fence":       {func(s *story) { s.before.Fence = "x" }, "the row was not new"},
		"one process":               {func(s *story) { s.pidB = s.pidA }, "not two processes"},
		"hold A failed":             {func(s *story) { failed(&s.holdA) }, "A did not get a lease"},
		"hold A without a fence":    {func(s *story) { s.holdA.Fence = lease.Fence{} }, "A did not get a lease"},
		"hold A of another key":     {func(s *story) { s.holdA.Lease = "chat/43" }, "A did not get a lease"},
		"read A failed":             {func(s *story) { failed(&s.readA) }, "A read"},
		"read A of nothing":         {func(s *story) { s.readA.Rows = 0 }, "A read 0 messages"},
		"read A of another text":    {func(s *story) { s.readA.Sent[0].Text += " " }, "not sent as it is written"},
		"read A of other arguments": {func(s *story) { s.readA.Sent[0].Args[0] = "43" }, "not sent as it is written"},
		"read A sent twice":         {func(s *story) { s.readA.Sent = append(s.readA.Sent, s.readA.Sent...) }, "not sent as it is written"},
		"key free for B":            {func(s *story) { s.tryB.Holder = "" }, "B did not find the key held by A"},
		"key held by another":       {func(s *story) { s.tryB.Holder = "worker C" }, `by "worker C"`},
		"A ended":                   {func(s *story) { s.pausedA = state{ended: true, text: "exit status 0"} }, "A was not stopped: exit status 0"},
		"A continued":               {func(s *story) { s.stayedA = false }, "A did not stay stopped"},
		"hold B failed":             {func(s *story) { failed(&s.holdB) }, "B did not get a lease"},
		"hold B with A's fence":     {func(s *story) { s.holdB.Fence = s.holdA.Fence }, "is not above A's"},
		"hold B with a lower one":   {func(s *story) { s.holdB.Fence = lease.Fence{Count: 1} }, "is not above A's"},
		"read B failed":             {func(s *story) { failed(&s.readB) }, "B read"},
		"write B failed":            {func(s *story) { failed(&s.writeB) }, "B did not write one row"},
		"write B of no row":         {func(s *story) { s.writeB.Rows = 0 }, "B did not write one row"},
		"write B with A's fence":    {func(s *story) { s.writeB.Fence = s.holdA.Fence }, "B did not write one row"},
		"write B of A's summary":    {func(s *story) { s.writeB.Args[0] = literal(summaryA) }, "B did not write its summary"},
		"write B not sent":          {func(s *story) { s.writeB.Sent = nil }, "nothing was sent"},
		"write B sent bare":         {func(s *story) { s.writeB.Sent[0].Text = s.writeText() }, "without the fence"},
		"write B sent without":      {func(s *story) { s.writeB.Sent[0].Args = s.writeB.Args }, "without the fence"},
		"write B changed nothing":   {func(s *story) { s.writeB.Sent[0].Changed = 0 }, "B's write changed 0 rows"},
		"lease of B lost":           {func(s *story) { s.endB.Error = lease.ErrLost.Error() }, "B's lease did not last"},
		"write A passed":            {func(s *story) { s.writeA.Error, s.writeA.Fenced, s.writeA.Refusal, s.writeA.Rows = "", false, nil, 1 }, "was not refused"},
		"write A failed otherwise":  {func(s *story) { failed(&s.writeA) }, "was not refused"},
		"write A without an error":  {func(s *story) { s.writeA.Error = "" }, "does not name the fences"},
		"write A refused, and one":  {func(s *story) { s.writeA.Rows = 1 }, "was not refused"},
		"write A with a new fence":  {func(s *story) { s.writeA.Fence = s.holdB.Fence }, "not with its old lease's"},
		"write A of B's summary":    {func(s *story) { s.writeA.Args[0] = literal(summaryB) }, "A did not write its summary"},
		"write A not sent":          {func(s *story) { s.writeA.Sent = nil }, "nothing was sent"},
		"write A sent bare":         {func(s *story) { s.writeA.Sent[0].Text = s.writeText() }, "without the fence"},
		"write A changed the row":   {func(s *story) { s.writeA.Sent[0].Changed = 1 }, "A's write changed 1 rows"},
		"no FencedError":            {func(s *story) { s.writeA.Refusal = nil }, "no *FencedError"},
		"refusal of another fence":  {func(s *story) { s.writeA.Refusal.Fence.Count = 9 }, "does not name the fences"},
		"refusal by another fence":  {func(s *story) { s.writeA.Refusal.Stored.Count = 9 }, "does not name the fences"},
		"refusal of another table":  {func(s *story) { s.writeA.Refusal.Table = "users" }, "names table"},
		"refusal of another lease":  {func(s *story) { s.writeA.Refusal.Lease = "chats/43" }, "names table"},
		"context A lives":           {func(s *story) { s.lostA = report{} }, "A's context does not say ErrLost: none"},
		"context A ended otherwise": {func(s *story) { s.lostA.Lost = false; failed(&s.lostA) }, "A's context does not say ErrLost: other"},
		"second write A passed":     {func(s *story) { s.againA.Error, s.againA.Canceled = "", false }, "was sent 0 times, and did not fail"},
		"second write A sent":       {func(s *story) { s.againA.Sent = s.writeA.Sent }, "with the ended context was sent 2 times"},
		"second write A of another": {func(s *story) { s.againA.Written = s.readText() }, "with the ended context"},
		"Hold A without ErrLost":    {func(s *story) { s.endA.Lost = false }, "did not return both"},
		"Hold A without ErrFenced":  {func(s *story) { s.endA.Fenced = false }, "did not return both"},
		"end A":                     {func(s *story) { s.exitA = state{ended: true, text: "exit status 1"} }, "A ended with exit status 1"},
		"end B":                     {func(s *story) { s.exitB = state{ended: true, text: "exit status 1"} }, "B ended with exit status 1"},
		"row of A":                  {func(s *story) { s.after.Summary = summaryA }, "not B's"},
		"row with A's fence":        {func(s *story) { s.after.Fence = s.holdA.Fence.Text() }, "not B's"},
		"row with a short fence":    {func(s *story) { s.after.Fence = "2" }, "not B's"},
		"another row":               {func(s *story) { s.rowsAfter = 2 }, "2, not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			for _, r := range []*report{&s.holdA, &s.readA, &s.tryB, &s.holdB, &s.readB, &s.writeB, &s.endB, &s.writeA, &s.lostA, &s.againA, &s.endA} {
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

// TestRecorder: what is sent shows, whichever way it goes, and errors do.
func TestRecorder(t *testing.T) {
	recorder := &recorder{}
	file := sqliteConnector(dataSource(filepath.Join(t.TempDir(), "r.db"), ""))
	c, err := fencedsql.NewConnector(recordingConnector{file, recorder}, fencedsql.WithTables(fencedsql.Table{Name: "chats"}))
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
	if _, err := st.Exec(7); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO t VALUES (?), (?), (?)", "it's", nil, 4); err != nil {
		t.Fatal(err)
	}
	_, none := db.Exec("INSERT INTO none VALUES (1)")
	_, unprepared := db.Prepare("SELECT none")
	if none == nil || unprepared == nil {
		t.Fatal("no error")
	}
	read, err := db.Prepare("SELECT a FROM t WHERE a = ?")
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var a int
	if err := read.QueryRow(4).Scan(&a); err != nil || a != 4 {
		t.Fatalf("%d, %v", a, err)
	}
	want := []statement{
		{Text: "CREATE TABLE t (a)", Args: []string{}, Exec: true},
		{Text: "INSERT INTO t VALUES (?)", Args: []string{"7"}, Exec: true, Changed: 1},
		{Text: "INSERT INTO t VALUES (?), (?), (?)", Args: []string{"'it''s'", "NULL", "4"}, Exec: true, Changed: 3},
		{Text: "INSERT INTO none VALUES (1)", Args: []string{}, Exec: true, Error: none.Error()},
		{Text: "SELECT none", Error: unprepared.Error()},
		{Text: "SELECT a FROM t WHERE a = ?", Args: []string{"4"}},
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
