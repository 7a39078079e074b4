package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencedsql/fencedsql/lease"
)

// The summaries that the workers are given.
const (
	summaryA = "A: the customer asks for a refund"
	summaryB = "B: the customer asks for a refund of order 1077, which was sent on Friday"
)

var messages = []string{"I want my money back.", "It is about order 1077."}

// story is what happened in the demo, as the processes, the system and the database told it.
type story struct {
	scene
	before row

	pidA, pidB                  int
	holdA, readA                report
	tryB                        report
	pausedA                     state
	holdB, readB, writeB, endB  report
	stayedA                     bool // nothing continued A before B had ended
	writeA, lostA, againA, endA report
	exitA, exitB                state
	after                       row
	rowsBefore, rowsAfter       int // of the table
}

// row is a row of chats as the bare driver reads it.
type row struct{ Summary, Fence string }

// judge says in what the story differs from the one that is promised; nothing if it is that.
func judge(s story) (wrong []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	held := func(who string, r report) {
		check(r.Error == "" && r.Lease == chatKey && !r.Fence.IsZero(), "%s did not get a lease of the key with a fence: lease %q, fence %v; error: %s", who, r.Lease, r.Fence, none(r.Error))
	}
	read := func(who string, r report) {
		check(r.Error == "" && r.Rows == int64(len(messages)), "%s read %d messages, not %d; error: %s", who, r.Rows, len(messages), none(r.Error))
		check(len(r.Sent) == 1 && r.Sent[0].Text == r.Written && fmt.Sprint(r.Sent[0].Args) == fmt.Sprint(r.Args),
			"what %s read was not sent as it is written", who)
	}
	// The write as both workers send it: another text than the one written, first of all that was sent, and with the fence.
	wrote := func(who string, r report, summary string, changed int64) {
		check(r.Written == s.writeText() && len(r.Args) > 0 && r.Args[0] == literal(summary), "%s did not write its summary", who)
		if len(r.Sent) == 0 {
			check(false, "nothing was sent of what %s wrote", who)
			return
		}
		first := r.Sent[0]
		check(first.Exec && first.Text != r.Written && slices.Contains(first.Args, literal(r.Fence.Text())), "%s's write was sent as it is written, without the fence", who)
		var n int64
		for _, sent := range r.Sent {
			n += sent.Changed
		}
		check(n == changed, "%s's write changed %d rows, not %d", who, n, changed)
	}

	var start lease.Fence
	check(start.Scan(s.before.Fence) == nil && start.IsZero() && s.before.Summary == "", "the row was not new: %+v", s.before)
	check(s.pidA > 0 && s.pidB > 0 && s.pidA != s.pidB, "A and B were not two processes: %d and %d", s.pidA, s.pidB)

	held("A", s.holdA)
	read("A", s.readA)
	check(s.tryB.Holder == "worker A", "B did not find the key held by A, but by %q; error: %s", s.tryB.Holder, none(s.tryB.Error))
	check(s.pausedA.stopped, "A was not stopped: %s", none(s.pausedA.text))

	held("B", s.holdB)
	check(s.holdA.Fence.Less(s.holdB.Fence), "B's fence %v is not above A's, %v", s.holdB.Fence, s.holdA.Fence)
	read("B", s.readB)
	check(s.writeB.Error == "" && s.writeB.Rows == 1 && s.writeB.Fence == s.holdB.Fence,
		"B did not write one row with its fence: %d rows, fence %v; error: %s", s.writeB.Rows, s.writeB.Fence, none(s.writeB.Error))
	wrote("B", s.writeB, summaryB, 1)
	check(s.endB.Error == "", "B's lease did not last until it had written: %s", s.endB.Error)
	check(s.stayedA, "A did not stay stopped until B had ended")

	w := s.writeA
	wrote("A", w, summaryA, 0)
	check(w.Fence == s.holdA.Fence, "A wrote with fence %v, not with its old lease's %v", w.Fence, s.holdA.Fence)
	check(w.Fenced && w.Rows == 0, "A's late write was not refused with ErrFenced: %d rows changed; error: %s", w.Rows, none(w.Error))
	if r := w.Refusal; r == nil {
		check(false, "A's error is no *FencedError")
	} else {
		check(r.Fence == s.holdA.Fence && r.Stored == s.holdB.Fence && strings.Contains(w.Error, r.Error()),
			"the refusal does not name the fences %v and %v: %s", s.holdA.Fence, s.holdB.Fence, none(w.Error))
		check(r.Table == s.Chats && r.Lease == w.Lease, "the refusal names table %q and lease %q", r.Table, r.Lease)
	}
	check(s.lostA.Lost, "A's context does not say ErrLost: %s", none(s.lostA.Error))
	again := s.againA
	check(again.Canceled && len(again.Sent) == 0 && again.Written == w.Written,
		"A's write with the ended context was sent %d times, and did not fail with context.Canceled: %s", len(again.Sent), none(again.Error))
	check(s.endA.Fenced && s.endA.Lost, "A's Hold did not return both ErrFenced and ErrLost: %s", none(s.endA.Error))

	check(s.exitA.clean, "A ended with %s", none(s.exitA.text))
	check(s.exitB.clean, "B ended with %s", none(s.exitB.text))
	check(s.after.Summary == summaryB, "the row has the summary %q, not B's", s.after.Summary)
	check(s.after.Fence == s.holdB.Fence.Text(), "the row has the fence %q, not B's", s.after.Fence)
	check(s.rowsBefore == 1 && s.rowsAfter == 1, "the table had %d rows and has %d, not 1", s.rowsBefore, s.rowsAfter)
	return wrong
}

func none(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
