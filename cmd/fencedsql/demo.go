package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/fencedsql/fencedsql/lease"
)

// demoLimit ends a demo that hangs. It takes less than a second.
const demoLimit = 30 * time.Second

func demoCommand(args []string, std streams) int {
	fs := flag.NewFlagSet("fencedsql demo", flag.ContinueOnError)
	keep := fs.Bool("keep", false, "")
	if code, done := parse(fs, args, demoUsage, std); done {
		return code
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(std.err, "fencedsql demo: it takes no arguments, got %q\n\n", fs.Arg(0))
		demoUsage(std.err)
		return exitUsage
	}
	switch {
	case !canPause:
		fmt.Fprintf(std.err, "fencedsql demo: it stops a process in the middle of its work (SIGSTOP), which it cannot do on %s.\n", runtime.GOOS)
		fmt.Fprintln(std.err, "Run it on Linux or macOS; on Windows, in WSL.")
		return exitUsage
	case !cgoEnabled:
		fmt.Fprintln(std.err, "fencedsql demo: it uses SQLite through github.com/mattn/go-sqlite3, and this binary was built without cgo.")
		fmt.Fprintln(std.err, "Install a C compiler such as gcc, and build or run it with CGO_ENABLED=1.")
		return exitUsage
	}

	ignoreBrokenPipe() // of "fencedsql demo | head": the processes and the folder are still to be cleared away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo has not ended after %v", demoLimit))
	defer cancel()
	if err := demo(ctx, std.out, *keep); err != nil {
		fmt.Fprintf(std.err, "\nfencedsql demo: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func demoUsage(w io.Writer) {
	fmt.Fprint(w, `Usage: fencedsql demo [-keep]

Two worker processes take the same row of a SQLite file. The first is stopped in
the middle of its work, the second takes the row and writes, the first goes on
and writes late. Shown are the fences, the SQL as written and as sent, and the
row in the end. The exit code is 0 if the late write was refused, else 1.

  -keep   keep the database and print its path
`)
}

// demo plays the story in a temporary folder. The error says what went otherwise than promised.
func demo(ctx context.Context, out io.Writer, keep bool) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fencedsql-demo-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "demo.db")
	p := newPrinter(out)
	defer func() {
		if keep {
			fmt.Fprintf(out, "\nThe database is kept:\n%s\n", path)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()

	s, err := play(ctx, p, exe, path)
	if err != nil {
		if why := context.Cause(ctx); why != nil && !errors.Is(err, why) { // a database says only that a context has ended
			err = fmt.Errorf("%w: %w", err, why)
		}
		return err
	}
	if wrong := judge(s); len(wrong) > 0 {
		fmt.Fprintf(out, "\n%s\n", p.paint(red, "This is not what is promised:"))
		for _, w := range wrong {
			p.field("-", w, red)
		}
		return errors.New("the outcome is not the promised one")
	}
	fmt.Fprintf(out, "\n%s\n", p.paint(green, "A's late write changed nothing: the row has B's summary, under B's fence."))
	return nil
}

// play has two workers, processes of exe, play the story on a new database at path, and prints it as it happens. An
// error is for a story that broke off.
func play(ctx context.Context, p *printer, exe, path string) (s story, err error) {
	bare, err := sql.Open("sqlite3", dataSource(path))
	if err != nil {
		return s, err
	}
	defer bare.Close()
	version, err := create(ctx, bare)
	if err != nil {
		return s, err
	}
	if s.before, s.rowsBefore, err = readRow(ctx, bare); err != nil {
		return s, err
	}
	p.title("fencedsql demo: the late write of a paused worker")
	p.field("database", path+", SQLite "+version, plain)
	p.field("table", shorten(createChats), plain)
	p.field("fenced", fmt.Sprintf("fencedsql.Table{Name: %q, Fence: %q, Key: %#v}", chats.Name, chats.Fence, chats.Key), plain)
	p.field("row", shorten(fmt.Sprintf("id %d, summary %s, fence %s", chatID, literal(s.before.Summary), literal(s.before.Fence))), plain)
	p.field("note", "'0…0' stands for the 40 digits of a fence in its column", plain)

	begin := func(name string) (*process, error) {
		w, err := start(exe, name, path)
		if err != nil {
			return nil, fmt.Errorf("worker %s does not start: %w", name, err)
		}
		return w, nil
	}
	end := func(w *process) { err = errors.Join(err, w.kill()) }

	a, err := begin("A")
	if err != nil {
		return s, err
	}
	defer end(a)
	s.pidA = a.pid
	if s.claimA, err = succeed(ctx, a, stepClaim); err != nil {
		return s, err
	}
	p.step("Worker A (process %d) claims the row: fence %v", s.pidA, s.claimA.Fence)
	p.sql(s.claimA)
	if s.readA, err = succeed(ctx, a, stepRead); err != nil {
		return s, err
	}
	p.step("Worker A begins its work under fence %v", s.readA.Fence)
	p.sql(s.readA)
	p.field("outcome", count(s.readA.Rows, "message")+" read; now A waits for a slow service to summarize them", plain)

	if s.pausedA, err = a.pause(ctx); err != nil {
		return s, err
	}
	p.step("The demo sends SIGSTOP to worker A: a pause in the middle of its work, for any reason")
	p.field("outcome", fmt.Sprintf("process %d is %s, says wait4", s.pidA, s.pausedA.text), plain)

	b, err := begin("B")
	if err != nil {
		return s, err
	}
	defer end(b)
	s.pidB = b.pid
	if s.claimB, err = succeed(ctx, b, stepClaim); err != nil {
		return s, err
	}
	p.step("Worker B (process %d) takes A for dead and claims the row: fence %v", s.pidB, s.claimB.Fence)
	p.sql(s.claimB)
	if s.readB, err = succeed(ctx, b, stepRead); err != nil {
		return s, err
	}
	if err = b.tell(summaryB); err != nil {
		return s, err
	}
	if s.writeB, err = succeed(ctx, b, stepWrite); err != nil {
		return s, err
	}
	if s.endB, err = b.wait(ctx); err != nil {
		return s, err
	}
	p.step("Worker B reads the %s too, gets its summary and writes it under fence %v", count(s.readB.Rows, "message"), s.writeB.Fence)
	p.sql(s.writeB)
	p.field("outcome", count(s.writeB.Rows, "row")+" changed, no error", green)

	// The summary that A waits for comes while A is stopped, and lies in its pipe when it goes on.
	if err = a.tell(summaryA); err != nil {
		return s, err
	}
	if s.stayedA, err = a.resume(); err != nil {
		return s, err
	}
	p.step("The demo sends SIGCONT to worker A, whose summary has come meanwhile")
	if s.writeA, err = a.next(ctx, stepWrite); err != nil {
		return s, err
	}
	if s.endA, err = a.wait(ctx); err != nil {
		return s, err
	}
	p.step("Worker A goes on and writes late, under the lease it has had all along: fence %v", s.writeA.Fence)
	p.sql(s.writeA)
	switch {
	case s.writeA.Fenced:
		p.field("outcome", "refused: errors.Is(err, fencedsql.ErrFenced)", green)
		p.field("error", s.writeA.Error, plain)
	case s.writeA.Error != "":
		p.field("outcome", s.writeA.Error, red)
	default:
		p.field("outcome", count(s.writeA.Rows, "row")+" changed, no error", red)
	}

	if s.after, s.rowsAfter, err = readRow(ctx, bare); err != nil {
		return s, err
	}
	p.step("The row in the end, read with the bare sqlite3 driver")
	p.field("id", fmt.Sprint(chatID), plain)
	p.field("summary", literal(s.after.Summary), plain)
	p.field("fence", literal(s.after.Fence), plain)
	return s, nil
}

// succeed waits for the report of a step that has to succeed for the story to go on.
func succeed(ctx context.Context, w *process, step string) (report, error) {
	r, err := w.next(ctx, step)
	if err == nil && r.Error != "" {
		err = w.errorf("step %q: %s", step, r.Error)
	}
	return r, err
}

var createChats = "CREATE TABLE chats (id INTEGER PRIMARY KEY, summary TEXT NOT NULL,\nfence TEXT NOT NULL DEFAULT " +
	literal(lease.Fence{}.Text()) + ")"

// create makes the tables. It returns SQLite's version.
func create(ctx context.Context, bare *sql.DB) (version string, err error) {
	for _, text := range []string{createChats, "CREATE TABLE messages (id INTEGER PRIMARY KEY, chat INTEGER NOT NULL, body TEXT NOT NULL)"} {
		if _, err := bare.ExecContext(ctx, text); err != nil {
			return "", err
		}
	}
	if _, err := bare.ExecContext(ctx, "INSERT INTO chats (id, summary) VALUES (?, '')", chatID); err != nil {
		return "", err
	}
	for _, m := range messages {
		if _, err := bare.ExecContext(ctx, "INSERT INTO messages (chat, body) VALUES (?, ?)", chatID, m); err != nil {
			return "", err
		}
	}
	return version, bare.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
}

// readRow reads the row of the story, and how many rows its table has.
func readRow(ctx context.Context, bare *sql.DB) (r row, n int, err error) {
	err = bare.QueryRowContext(ctx, "SELECT summary, fence, (SELECT count(*) FROM chats) FROM chats WHERE id = ?", chatID).
		Scan(&r.Summary, &r.Fence, &n)
	return r, n, err
}
