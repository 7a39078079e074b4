package main

import (
	"fmt"
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
	before row

	pidA, pidB            int
	claimA, readA         report
	pausedA               state
	claimB, readB, writeB report
	stayedA               bool // nothing continued A before B had ended
	writeA                report
	endA, endB            state
	after                 row
	rowsBefore, rowsAfter int // of the table
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
	claimed := func(who string, r report, above lease.Fence) {
		next, err := above.Next()
		check(r.Error == "" && err == nil && r.Fence == next, "%s claimed the row with fence %v, not %v; error: %s", who, r.Fence, next, none(r.Error))
	}
	read := func(who string, r report) {
		check(r.Error == "" && r.Rows == int64(len(messages)), "%s read %d messages, not %d; error: %s", who, r.Rows, len(messages), none(r.Error))
		check(len(r.Sent) == 1 && r.Sent[0].Text == r.Written && fmt.Sprint(r.Sent[0].Args) == fmt.Sprint(r.Args),
			"what %s read was not sent as it is written", who)
	}
	// The write as both workers send it: another text than the one written, first of all that was sent.
	wrote := func(who string, r report, summary string, changed int64) {
		check(r.Written == writeSQL && len(r.Args) > 0 && r.Args[0] == literal(summary), "%s did not write its summary", who)
		if len(r.Sent) == 0 {
			check(false, "nothing was sent of what %s wrote", who)
			return
		}
		check(r.Sent[0].Exec && r.Sent[0].Text != r.Written, "%s's write was sent as it is written, without the fence", who)
		var n int64
		for _, sent := range r.Sent {
			n += sent.Changed
		}
		check(n == changed, "%s's write changed %d rows, not %d", who, n, changed)
	}

	var start lease.Fence
	check(start.Scan(s.before.Fence) == nil && start.IsZero() && s.before.Summary == "", "the row was not new: %+v", s.before)
	check(s.pidA > 0 && s.pidB > 0 && s.pidA != s.pidB, "A and B were not two processes: %d and %d", s.pidA, s.pidB)

	claimed("A", s.claimA, start)
	read("A", s.readA)
	check(s.pausedA.stopped, "A was not stopped: %s", none(s.pausedA.text))

	claimed("B", s.claimB, s.claimA.Fence)
	read("B", s.readB)
	check(s.writeB.Error == "" && s.writeB.Rows == 1 && s.writeB.Fence == s.claimB.Fence,
		"B did not write one row with its fence: %d rows, fence %v; error: %s", s.writeB.Rows, s.writeB.Fence, none(s.writeB.Error))
	wrote("B", s.writeB, summaryB, 1)
	check(s.stayedA, "A did not stay stopped until B had ended")

	w := s.writeA
	wrote("A", w, summaryA, 0)
	check(w.Fence == s.claimA.Fence, "A wrote with fence %v, not with its old lease's %v", w.Fence, s.claimA.Fence)
	check(w.Fenced && w.Rows == 0, "A's late write was not refused with ErrFenced: %d rows changed; error: %s", w.Rows, none(w.Error))
	if r := w.Refusal; r == nil {
		check(false, "A's error is no *FencedError")
	} else {
		check(r.Fence == s.claimA.Fence && r.Stored == s.claimB.Fence && strings.Contains(w.Error, r.Error()),
			"the refusal does not name the fences %v and %v: %s", s.claimA.Fence, s.claimB.Fence, none(w.Error))
		check(r.Table == chats.Name && r.Lease == w.Lease, "the refusal names table %q and lease %q", r.Table, r.Lease)
	}

	check(s.endA.clean, "A ended with %s", none(s.endA.text))
	check(s.endB.clean, "B ended with %s", none(s.endB.text))
	check(s.after.Summary == summaryB, "the row has the summary %q, not B's", s.after.Summary)
	check(s.after.Fence == s.claimB.Fence.Text(), "the row has the fence %q, not B's", s.after.Fence)
	check(s.rowsBefore == 1 && s.rowsAfter == 1, "the table had %d rows and has %d, not 1", s.rowsBefore, s.rowsAfter)
	return wrong
}

func none(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
