package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// How long the workers' leases live if they are not renewed. A's is short, so that nobody has to wait for long until it
// has run out; B's is to outlast every delay on a busy machine.
const (
	ttlA = time.Second
	ttlB = time.Minute
)

// detached is the context of the workers' write: see worker.summarize.
const detached = "context.WithoutCancel(ctx), which does not end with the lease"

// play has two workers, processes of exe, play the story on the stage, and prints it as it happens. An error is for a
// story that broke off.
func play(ctx context.Context, p *printer, exe string, stage *stage) (s story, err error) {
	s.scene = stage.scene
	version, err := stage.create(ctx)
	if err != nil {
		return s, err
	}
	if s.before, s.rowsBefore, err = stage.readRow(ctx); err != nil {
		return s, err
	}
	p.title("fencedsql demo: the late write of a paused worker")
	p.field("leases", where(stage.Leases, stage.Prefix+"…", version)+", package lease/sqlstore", plain)
	p.field("data", where(stage.Data, stage.Chats, version), plain)
	p.field("table", p.shorten(stage.createChats()), plain)
	t := stage.table()
	p.field("fenced", fmt.Sprintf("fencedsql.Table{Name: %q, Fence: %q, Key: %#v}", t.Name, t.Fence, t.Key), plain)
	p.field("row", p.shorten(fmt.Sprintf("id %d, summary %s, fence %s", chatID, literal(s.before.Summary), literal(s.before.Fence))), plain)
	p.field("note", "'0…0' stands for 40 zeros, and fenceA below for the 40 digits of A's fence", plain)

	begin := func(j job) (*process, error) {
		j.scene = stage.scene
		w, err := start(exe, j)
		if err != nil {
			return nil, fmt.Errorf("worker %s does not start: %w", j.Worker, err)
		}
		return w, nil
	}
	end := func(w *process) { err = errors.Join(err, w.kill()) }

	a, err := begin(job{Worker: "A", TTL: ttlA})
	if err != nil {
		return s, err
	}
	defer end(a)
	s.pidA = a.pid
	if s.holdA, err = succeed(ctx, a, stepHold); err != nil {
		return s, err
	}
	p.step("Worker A (process %d) holds the key %s: its lease is for %v, and renewed", s.pidA, chatKey, ttlA)
	p.field("called", s.holdA.Written, plain)
	p.fence("A", s.holdA.Fence)
	if s.readA, err = succeed(ctx, a, stepRead); err != nil {
		return s, err
	}
	p.step("Worker A begins its work under fenceA")
	p.sql(s.readA)
	p.field("outcome", count(s.readA.Rows, "message")+" read; now A waits for a slow service to summarize them", plain)

	b, err := begin(job{Worker: "B", TTL: ttlB, Try: true})
	if err != nil {
		return s, err
	}
	defer end(b)
	s.pidB = b.pid
	if s.tryB, err = b.next(ctx, stepTry); err != nil {
		return s, err
	}
	if s.tryB.Holder == "" {
		return s, b.errorf("it does not find the key held by A: %s", none(s.tryB.Error))
	}
	p.step("Worker B (process %d) wants the key as well, and waits", s.pidB)
	p.field("called", s.tryB.Written, plain)
	p.field("outcome", s.tryB.Error, plain)

	if s.pausedA, err = a.pauseUnless(ctx, stage.locked); err != nil {
		return s, err
	}
	p.step("The demo sends SIGSTOP to worker A: a pause in the middle of its work, for any reason")
	p.field("outcome", fmt.Sprintf("process %d is %s, says wait4", s.pidA, s.pausedA.text), plain)

	if s.holdB, err = succeed(ctx, b, stepHold); err != nil {
		return s, err
	}
	p.step("A's lease runs out, and worker B holds the key, having waited for %v", s.holdB.Waited.Round(10*time.Millisecond))
	p.field("called", s.holdB.Written, plain)
	p.fence("B", s.holdB.Fence)
	if s.readB, err = succeed(ctx, b, stepRead); err != nil {
		return s, err
	}
	if err = b.tell(summaryB); err != nil {
		return s, err
	}
	if s.writeB, err = succeed(ctx, b, stepWrite); err != nil {
		return s, err
	}
	if s.endB, err = b.next(ctx, stepEnd); err != nil {
		return s, err
	}
	if s.exitB, err = b.wait(ctx); err != nil {
		return s, err
	}
	p.step("Worker B reads the %s too, gets its summary and writes it under fenceB", count(s.readB.Rows, "message"))
	p.field("context", detached, plain)
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
	p.step("Worker A goes on and writes late, under the lease it has had all along: fenceA")
	p.field("context", detached, plain)
	p.field("note", "so it is when a process is stopped after its last look at the context: the write goes out late, and nothing but the fence holds it back", plain)
	p.sql(s.writeA)
	p.outcome(s.writeA)
	if s.writeA.Fenced {
		if s.lostA, err = a.next(ctx, stepLost); err != nil {
			return s, err
		}
		p.step("Worker A looks at the context that Hold gave it")
		p.field("called", s.lostA.Written, plain)
		p.field("outcome", s.lostA.Error, lostStyle(s.lostA))
		if s.againA, err = a.next(ctx, stepAgain); err != nil {
			return s, err
		}
		p.step("Worker A writes once more, with that context")
		p.field("context", "ctx", plain)
		p.sql(s.againA)
		p.outcome(s.againA)
	}
	if s.endA, err = a.next(ctx, stepEnd); err != nil {
		return s, err
	}
	p.step("Worker A's Hold returns what A's work returned, and that the lease was lost")
	p.field("outcome", none(s.endA.Error), lostStyle(s.endA))
	if s.exitA, err = a.wait(ctx); err != nil {
		return s, err
	}

	if s.after, s.rowsAfter, err = stage.readRow(ctx); err != nil {
		return s, err
	}
	p.step("The row in the end, read with the bare driver")
	p.field("id", fmt.Sprint(chatID), plain)
	p.field("summary", literal(s.after.Summary), plain)
	p.field("fence", literal(s.after.Fence), plain)
	return s, nil
}

// where says what is where, without a password.
func where(dsn, table, version string) string {
	if u, err := url.Parse(dsn); err == nil && u.Scheme == "file" {
		return u.Path + ", " + version
	}
	return table + ", " + version
}

// succeed waits for the report of a step that has to succeed for the story to go on.
func succeed(ctx context.Context, w *process, step string) (report, error) {
	r, err := w.next(ctx, step)
	if err == nil && r.Error != "" {
		err = w.errorf("step %q: %s", step, r.Error)
	}
	return r, err
}

// line is the job as a worker reads it.
func (j job) line() string {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	return strings.TrimSpace(string(b))
}
