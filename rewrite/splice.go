package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
)

// In the text of an edit these two bytes stand for the parameter markers of
// the fence and of the bound, until all edits are known and they get a number.
// No dialect's own text holds them.
const (
	fenceMark = "\x01"
	boundMark = "\x02"
)

// splicer fences one statement: it collects edits of the text, applies them,
// and reads the result again to see that it says what was meant.
type splicer struct {
	*Rewriter
	text   string
	mode   dialects.Mode
	script *dialects.Script
	st     *dialects.Statement
	known  Columns

	unpinned bool // take the assertion guard for all
	listed   bool
	edits    []edit
	marks    [2]string // what fenceMark and boundMark became
	expect   []expectation

	// Room for what most statements need.
	editRoom   [6]edit
	expectRoom [4]expectation
}

func (r *Rewriter) splicer(text string, mode dialects.Mode, script *dialects.Script, known Columns) *splicer {
	s := &splicer{Rewriter: r, text: text, mode: mode, script: script, st: &script.Statements[0], known: known}
	s.edits, s.expect = s.editRoom[:0], s.expectRoom[:0]
	return s
}

// expectation is what a write must say after the edits.
type expectation struct {
	hit
	ok func(text string, w *dialects.Write) bool
}

// edit replaces a span of the text, or inserts where the span is empty.
type edit struct {
	dialects.Span
	text string
}

func (s *splicer) insert(at int, text string) {
	s.edits = append(s.edits, edit{Span: dialects.Span{Start: at, End: at}, text: text})
}

func (s *splicer) plan(hits []hit) *Plan {
	for _, h := range hits[1:] {
		if t := h.table; t.Encoding != hits[0].table.Encoding || t.Once != hits[0].table.Once {
			return refuse(t.Name, "the statement writes fenced tables of different encodings", "write each table in a statement of its own")
		}
	}
	p := &Plan{Verdict: Fence, Returns: true}
	for i := range s.st.Writes {
		if w := &s.st.Writes[i]; !w.Nested {
			p.Returns = len(w.Returning) > 0
		}
	}
	var deletes []hit // their fences are read first
	for _, h := range hits {
		g := Guard{Table: h.table.Table, Name: h.Target}
		var refusal *Plan
		switch pinned := len(s.st.Writes) == 1 && s.pinned(h); { // else the others would be kept
		case h.Op == dialects.Insert:
			refusal = s.fenceInsert(h)
		case pinned:
			refusal = s.fencePinned(h)
			g.Probe = s.probe(h)
			for _, k := range h.table.Key {
				g.Key = append(g.Key, Arg(s.pin(h, k).Param))
			}
		case h.Op == dialects.Update:
			refusal = s.fenceUpdate(h)
		case s.dialect.DeleteGuard() == dialects.DeleteReturning:
			s.fenceDelete(h, p)
		default:
			deletes = append(deletes, h)
		}
		if refusal != nil {
			return refusal
		}
		p.Guards = append(p.Guards, g)
	}
	for _, q := range s.st.Params {
		p.NumInput = max(p.NumInput, q.Index)
	}
	for _, q := range s.st.Params {
		if q.Name != "" {
			if p.Names == nil {
				p.Names = make([]string, p.NumInput)
			}
			p.Names[q.Index-1] = q.Name
		}
	}
	if len(deletes) > 0 {
		if len(deletes) < len(hits) {
			return refuse(hits[0].table.Name, "a DELETE beside another write of a fenced table", "send each in a statement of its own")
		}
		var ok bool
		if p.First, ok = s.readFirst(deletes); !ok {
			return refuse(hits[0].table.Name, "the fences of the rows it deletes cannot be read", "delete by key, from one table")
		}
		s.fenceRead(deletes)
	}
	text, args, err := s.apply()
	switch {
	case err == errTooMany:
		return refuse(hits[0].table.Name, err.Error(), "write fewer rows at once")
	case err != nil:
		return refuse(hits[0].table.Name, err.Error(), "write the statement in simpler terms, and report it, please")
	}
	p.Text, p.Args, p.Listed = text, args, s.listed
	p.Loose = p.Guards[0].Probe != nil && s.dialect.LooseKeys()
	return p
}

// pinned reports whether the statement means at most one row by its key, and
// the database's count tells whether that row was written.
func (s *splicer) pinned(h hit) bool {
	if s.unpinned || h.Nested || h.Joined || h.Limited || len(h.Returning) > 0 || len(h.table.Key) == 0 ||
		h.Op != dialects.Update && h.Op != dialects.Delete {
		return false
	}
	for _, k := range h.table.Key {
		if s.pin(h, k) == nil {
			return false
		}
	}
	return true
}

func (s *splicer) pin(h hit, key string) *dialects.Conjunct {
	for i := range h.Conjuncts {
		if c := &h.Conjuncts[i]; c.Column != "" && s.dialect.SameColumn(key, c.Column) {
			return c
		}
	}
	return nil
}

func (s *splicer) assert(h hit, fence string) string { return s.assertOn(h.Ref, h, fence) }

func (s *splicer) assertOn(ref string, h hit, fence string) string {
	return s.dialect.Assert(ref+"."+h.table.column, boundMark, fence, h.table.Encoding)
}

// assigned refuses a SET list that has the fence column.
func (s *splicer) assigned(t *table, set []dialects.Assignment) *Plan {
	for _, a := range set {
		if s.assigns(a.Columns, t.Table) {
			return s.assignsItself(t)
		}
	}
	return nil
}

func (s *splicer) assignsItself(t *table) *Plan {
	return refuse(t.Name, fmt.Sprintf("the statement itself assigns the fence column %s", t.Fence),
		"leave the column out: the driver sets it")
}

func (s *splicer) fencePinned(h hit) *Plan {
	if refusal := s.assigned(h.table, h.Set); refusal != nil {
		return refusal
	}
	if h.Op == dialects.Update {
		s.set(h, h.SetAt, fenceMark, func(w *dialects.Write) []dialects.Assignment { return w.Set })
	}
	n := len(h.Conjuncts)
	condition := h.table.column + " < " + boundMark
	s.insert(h.Where.Start, "(")
	s.insert(h.Where.End, ") AND "+condition)
	s.check(h, func(text string, w *dialects.Write) bool {
		if len(w.Conjuncts) != n+1 || !s.says(text, w.Conjuncts[n].Span, condition) {
			return false
		}
		// The caller's condition is in parentheses, and ours ends the clause.
		last := w.Conjuncts[n].Span
		return text[w.Where.Start] == '(' && last.End == w.Where.End && strings.HasSuffix(text[w.Where.Start:last.Start], ") AND ")
	})
	return nil
}

func (s *splicer) fenceUpdate(h hit) *Plan {
	if refusal := s.assigned(h.table, h.Set); refusal != nil {
		return refusal
	}
	s.set(h, h.SetAt, s.assert(h, fenceMark), func(w *dialects.Write) []dialects.Assignment { return w.Set })
	return nil
}

// set adds the assignment of the fence column to a SET list.
func (s *splicer) set(h hit, at int, value string, list func(*dialects.Write) []dialects.Assignment) {
	column := h.table.column
	if h.QualifySet {
		column = h.Ref + "." + column
	}
	n := len(list(h.Write))
	s.insert(at, ", "+column+" = "+value)
	s.check(h, func(text string, w *dialects.Write) bool {
		set := list(w)
		return len(set) == n+1 && len(set[n].Columns) == 1 && s.assigns(set[n].Columns, h.table.Table) && s.says(text, set[n].Value, value)
	})
}

// fenceDelete lets the RETURNING clause carry the assertion.
func (s *splicer) fenceDelete(h hit, p *Plan) {
	ref := h.ReturningRef
	if ref == "" {
		ref = h.Ref
	}
	assertion := s.assertOn(ref, h, "NULL")
	n := len(h.Returning)
	if n > 0 {
		s.insert(h.ReturningAt, ", "+assertion)
	} else {
		s.insert(h.ReturningAt, " RETURNING "+assertion)
	}
	if !h.Nested {
		p.Hidden, p.Count = n > 0, n == 0
	}
	s.check(h, func(text string, w *dialects.Write) bool {
		return len(w.Returning) == n+1 && s.says(text, w.Returning[n], assertion)
	})
}

func (s *splicer) fenceInsert(h hit) *Plan {
	t := h.table
	// A marker takes its column's type, but not through a query.
	value := func(row dialects.Row) string {
		if row.Select {
			return s.dialect.Cast(fenceMark, t.Encoding)
		}
		return fenceMark
	}
	switch {
	case len(h.Set) > 0:
		if refusal := s.assigned(t, h.Set); refusal != nil {
			return refusal
		}
		s.set(h, h.SetAt, fenceMark, func(w *dialects.Write) []dialects.Assignment { return w.Set })
	default:
		if refusal := s.columns(h); refusal != nil {
			return refusal
		}
		if !h.DefaultValues.IsZero() {
			s.edits = append(s.edits, edit{Span: h.DefaultValues, text: "VALUES (" + fenceMark + ")"})
		}
		s.edits = slices.Grow(s.edits, len(h.Rows))
		for _, row := range h.Rows {
			if len(row.Values) == 0 {
				s.insert(row.At, value(row))
			} else {
				s.insert(row.At, ", "+value(row))
			}
		}
		s.check(h, func(text string, w *dialects.Write) bool {
			if !h.DefaultValues.IsZero() {
				return len(w.Rows) == 1 && len(w.Rows[0].Values) == 1 && s.says(text, w.Rows[0].Values[0], fenceMark)
			}
			if len(w.Rows) != len(h.Rows) || len(w.Rows) == 0 {
				return false
			}
			for i, row := range w.Rows {
				n := len(h.Rows[i].Values)
				if len(row.Values) != n+1 || !s.says(text, row.Values[n], value(h.Rows[i])) {
					return false
				}
			}
			return true
		})
	}
	for i, u := range h.Upserts {
		if refusal := s.assigned(t, u.Set); refusal != nil {
			return refusal
		}
		s.set(h, u.SetAt, s.assert(h, fenceMark), func(w *dialects.Write) []dialects.Assignment {
			if i < len(w.Upserts) {
				return w.Upserts[i].Set
			}
			return nil
		})
	}
	n := len(h.Upserts)
	s.check(h, func(_ string, w *dialects.Write) bool { return len(w.Upserts) == n })
	return nil
}

// columns adds the fence column to the column list of an INSERT, or writes
// the list where the statement has none.
func (s *splicer) columns(h hit) *Plan {
	t, fence := h.table, h.table.column
	var want []string
	switch {
	case h.HasColumns && s.assigns(h.Columns, t.Table):
		return s.assignsItself(t)
	case h.HasColumns && len(h.Columns) == 0:
		s.insert(h.ColumnsAt, fence)
	case h.HasColumns:
		want = h.Columns
		s.insert(h.ColumnsAt, ", "+fence)
	case !h.DefaultValues.IsZero():
		s.insert(h.ColumnsAt, " ("+fence+")")
	default:
		var refusal *Plan
		if want, refusal = s.listless(h); refusal != nil {
			return refusal
		}
		s.listed = true
		list := make([]string, 0, len(want)+1)
		for _, c := range want {
			list = append(list, s.dialect.Quote(c))
		}
		s.insert(h.ColumnsAt, " ("+strings.Join(append(list, fence), ", ")+")")
	}
	s.check(h, func(_ string, w *dialects.Write) bool {
		n := len(want)
		return w.HasColumns && len(w.Columns) == n+1 && slices.EqualFunc(w.Columns[:n], want, s.dialect.SameColumn) &&
			s.assigns(w.Columns[n:], t.Table)
	})
	return nil
}

// listless gives the columns that an INSERT without a column list fills.
func (s *splicer) listless(h hit) ([]string, *Plan) {
	t := h.table
	no := func(reason string) ([]string, *Plan) {
		p := refuse(t.Name, "INSERT without a column list: "+reason, "list the columns, without "+t.Fence)
		p.Refusal.Columns = true
		return nil, p
	}
	values := -1
	for _, row := range h.Rows {
		if row.Open {
			return no("a star does not tell how many values it gives")
		}
		if values >= 0 && len(row.Values) != values {
			return no("its rows differ in length")
		}
		values = len(row.Values)
	}
	switch values {
	case -1:
		return no("its rows are not known")
	case 0: // all columns by default
		return []string{}, nil
	}
	var columns []string
	if s.known != nil {
		columns = s.known(t.Table, h.Target, values)
	}
	if columns == nil {
		return no("the table's columns are not known")
	}
	fence := slices.IndexFunc(columns, func(c string) bool { return s.dialect.SameColumn(t.Fence, c) })
	switch {
	case s.dialect.ShortRows() && values <= max(fence, 0):
		return columns[:values], nil
	case fence >= 0 && values == len(columns)-1 && !s.dialect.ShortRows():
		return slices.Delete(slices.Clone(columns), fence, fence+1), nil
	case values <= len(columns) && (s.dialect.ShortRows() || values == len(columns)):
		return no("it gives a value to the fence column " + t.Fence)
	}
	return no(fmt.Sprintf("it gives %d values, and the table has %d columns with %s", values, len(columns), t.Fence))
}

// probe reads the stored fence of the row that a pinned write means, by the
// caller's own conditions on the key.
func (s *splicer) probe(h hit) *Query {
	q := &Query{}
	var b strings.Builder
	b.WriteString("SELECT " + h.table.column + " FROM " + h.TargetText)
	if h.TargetText != h.Ref && !strings.HasSuffix(h.TargetText, "."+h.Ref) {
		b.WriteString(" AS " + h.Ref)
	}
	for i, k := range h.table.Key {
		b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
		at := s.pin(h, k).Span
		for _, p := range s.st.Params {
			if at.Start <= p.Start && p.End <= at.End {
				b.WriteString(s.text[at.Start:p.Start])
				q.Args = append(q.Args, Arg(p.Index))
				b.WriteString(s.dialect.Placeholder(len(q.Args)))
				at.Start = p.End
			}
		}
		b.WriteString(at.Of(s.text))
	}
	b.WriteString(s.dialect.Newest())
	q.Text = b.String()
	return q
}

// readFirst makes the SELECT that locks the rows of a DELETE and reads their
// fences: its own references, condition, order and limit.
func (s *splicer) readFirst(hits []hit) (*Query, bool) {
	w := hits[0].Write
	if w.From.IsZero() || !s.script.Anonymous {
		return nil, false
	}
	q := &Query{}
	var b strings.Builder
	copySpan := func(span dialects.Span) {
		b.WriteString(span.Of(s.text))
		for _, p := range s.st.Params {
			if span.Start <= p.Start && p.End <= span.End {
				q.Args = append(q.Args, Arg(p.Index))
			}
		}
	}
	copySpan(w.With)
	for i, h := range hits {
		b.WriteString([]string{"SELECT ", ", "}[min(i, 1)] + h.Ref + "." + h.table.column)
	}
	b.WriteString(" FROM ")
	copySpan(w.From)
	if !w.Where.IsZero() {
		b.WriteString(" WHERE ")
		copySpan(w.Where)
	}
	if !w.Tail.IsZero() {
		b.WriteByte(' ')
		copySpan(w.Tail)
	}
	b.WriteString(s.dialect.Lock())
	q.Text = b.String()
	script, err := s.dialect.Parse(q.Text, s.mode)
	return q, err == nil && len(script.Statements) == 1 && len(script.Statements[0].Writes) == 0
}

// fenceRead lets a DELETE, after the SELECT that read its rows' fences, take
// none that is newer: its condition may hold for others by then. A target that
// an outer join leaves empty has no fence, and nothing to delete.
func (s *splicer) fenceRead(hits []hit) {
	w := hits[0].Write
	var conditions []string
	for _, h := range hits {
		conditions = append(conditions, "("+h.Ref+"."+h.table.column+" < "+boundMark+") IS NOT FALSE")
	}
	ours := strings.Join(conditions, " AND ")
	if w.Where.IsZero() {
		s.insert(w.WhereAt, " WHERE "+ours)
	} else {
		s.insert(w.Where.Start, "(")
		s.insert(w.Where.End, ") AND "+ours)
	}
	n, k := len(w.Conjuncts), len(conditions)
	s.check(hits[0], func(text string, w *dialects.Write) bool {
		if len(w.Conjuncts) != n+k || n > 0 && text[w.Where.Start] != '(' {
			return false
		}
		for i, c := range conditions {
			if !s.says(text, w.Conjuncts[n+i].Span, c) {
				return false
			}
		}
		return true
	})
}

// check adds an expectation of a write as it reads after the edits.
func (s *splicer) check(h hit, ok func(text string, w *dialects.Write) bool) {
	s.expect = append(s.expect, expectation{h, ok})
}

// holds reports whether a write of the new text is the one that it was, and
// says what the edits put into it.
func (e *expectation) holds(text string, st *dialects.Statement) bool {
	w := &st.Writes[e.index]
	return w.Op == e.Op && w.Target == e.Target && w.Ref == e.Ref && w.Reason == "" && e.ok(text, w)
}

// says reports whether the span of the new text holds what an edit put there.
func (s *splicer) says(text string, span dialects.Span, value string) bool {
	text = span.Of(text)
	for value != "" {
		var plain, mark string
		plain, mark, value = cutMark(value)
		want := ""
		switch mark {
		case fenceMark:
			want = s.marks[0]
		case boundMark:
			want = s.marks[1]
		}
		if !strings.HasPrefix(text, plain) || !strings.HasPrefix(text[len(plain):], want) {
			return false
		}
		text = text[len(plain)+len(want):]
	}
	return text == ""
}

// cutMark cuts the text of an edit around the first mark in it.
func cutMark(text string) (before, mark, after string) {
	for i := range len(text) {
		if c := text[i]; c == fenceMark[0] || c == boundMark[0] {
			return text[:i], text[i : i+1], text[i+1:]
		}
	}
	return text, "", ""
}

// fewMarkers is how many bare markers may be added to a text.
const fewMarkers = 8

// isWord reports whether the byte may be part of a name or a number.
func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '?' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

var (
	errDiffers = errors.New("the fenced text reads otherwise than meant")
	errTooMany = errors.New("with the fence it has more parameters than the engine takes")
)

// manyParams is a little below what PostgreSQL's and MySQL's protocols count to.
const manyParams = 65_000

// apply makes the edits, gives the markers their numbers, and parses the
// result again: what is sent holds the fence, or nothing is sent.
func (s *splicer) apply() (string, []Arg, error) {
	params := s.st.Params
	last := 0
	for _, p := range params {
		last = max(last, p.Index)
	}
	fences, bounds := 0, 0
	for _, e := range s.edits {
		fences += strings.Count(e.text, fenceMark)
		bounds += strings.Count(e.text, boundMark)
	}
	inserted := fences + bounds
	// Markers stay bare where all are and few come in: an engine takes so many
	// and no more. Else all get numbers, ours above the caller's, so that none
	// of the caller's shifts; where the engine knows numbers.
	fence, bound := "?", "?"
	if !s.script.Anonymous || inserted > fewMarkers && s.dialect.Placeholder(1) != "?" {
		if fences > 0 {
			last++
			fence = s.dialect.Placeholder(last)
		}
		bound = s.dialect.Placeholder(last + 1)
		for _, p := range params {
			numbered := s.dialect.Placeholder(p.Index)
			if p.Number != 0 && p.Number != p.Index {
				return "", nil, fmt.Errorf("marker %s is the %d. parameter, which drivers read differently", p.Of(s.text), p.Index)
			}
			if p.Of(s.text) != numbered {
				s.edits = append(s.edits, edit{Span: p.Span, text: numbered})
			}
		}
	}
	s.marks = [2]string{fence, bound}
	slices.SortStableFunc(s.edits, func(a, b edit) int { return a.Start - b.Start })

	var b strings.Builder
	grown := len(s.text) + fences*len(fence) + bounds*len(bound)
	for _, e := range s.edits {
		grown += len(e.text) + 1
	}
	b.Grow(grown)
	order := make([]Arg, 0, len(params)+inserted) // what each marker of the new text, in turn, stands for
	at := 0
	copyTo := func(end int) {
		b.WriteString(s.text[at:end])
		for len(params) > 0 && params[0].End <= end {
			order = append(order, Arg(params[0].Index))
			params = params[1:]
		}
		at = end
	}
	for _, e := range s.edits {
		if e.Start < at {
			return "", nil, fmt.Errorf("two clauses stand in one place")
		}
		copyTo(e.Start)
		for added := e.text; added != ""; {
			var plain, mark string
			plain, mark, added = cutMark(added)
			b.WriteString(plain)
			switch mark {
			case fenceMark:
				order = append(order, FenceArg)
				b.WriteString(fence)
			case boundMark:
				order = append(order, BoundArg)
				b.WriteString(bound)
			}
		}
		for len(params) > 0 && params[0].End <= e.End {
			order = append(order, Arg(params[0].Index))
			params = params[1:]
		}
		at = e.End
		// SET v='x'WHERE is two words; SET v='x', fence = $1WHERE is not.
		if at < len(s.text) && isWord(s.text[at]) && isWord(b.String()[b.Len()-1]) {
			b.WriteByte(' ')
		}
	}
	copyTo(len(s.text))
	text := b.String()

	script, err := s.dialect.Parse(text, s.mode)
	if err != nil && len(order) > manyParams {
		return "", nil, errTooMany
	}
	if err != nil {
		return "", nil, fmt.Errorf("the fenced text cannot be read again: %w", err)
	}
	if len(script.Statements) != 1 {
		return "", nil, errDiffers
	}
	st := &script.Statements[0]
	if len(st.Writes) != len(s.st.Writes) || len(st.Params) != len(order) {
		return "", nil, errDiffers
	}
	args := make([]Arg, 0, len(st.Params))
	for i, p := range st.Params {
		if p.Index < 1 {
			return "", nil, errDiffers
		}
		for len(args) < p.Index {
			args = append(args, NoArg)
		}
		if a := &args[p.Index-1]; *a == NoArg {
			*a = order[i]
		} else if *a != order[i] {
			return "", nil, errDiffers
		}
	}
	for i := range s.expect {
		if !s.expect[i].holds(text, st) {
			return "", nil, errDiffers
		}
	}
	return text, args, nil
}
