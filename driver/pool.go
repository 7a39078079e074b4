package fencedsql

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/rewrite"
)

// pool is what the connections of one connector share.
type pool struct {
	dialect dialects.Dialect
	lostTx  string    // dialect.LostTx()
	own     *tableSet // of WithTables; nil for the registered ones
	logger  *slog.Logger

	rules atomic.Pointer[rules]

	mu      sync.Mutex
	checked map[checkKey]*dialects.TableInfo
	forgot  int // how often
}

// rules are what holds for statements as long as the set of tables does not change.
type rules struct {
	number   uint64 // no two have the same, and none has 0
	set      *tableSet
	rewriter *rewrite.Rewriter
	plans    planCache
	// begun is set when the tables were checked before a transaction began.
	begun atomic.Bool
}

// checkKey is a registered table under a name that a statement gives it.
type checkKey struct {
	table *rewrite.Table
	name  dialects.Name
}

var lastRules atomic.Uint64 // the number of the newest

// tables are those that are registered now; nil when none is.
func (p *pool) tables() *tableSet {
	if p.own != nil {
		return p.own
	}
	return registered.set.Load()
}

// made returns the rules for the tables that are registered now, or nil where
// nobody needed them yet.
func (p *pool) made() *rules {
	r := p.rules.Load()
	if r == nil || r.set != p.tables() {
		return nil
	}
	return r
}

// current returns the rules for the tables that are registered now; nil, nil
// when none is.
func (p *pool) current() (*rules, error) {
	if r := p.made(); r != nil {
		return r, nil
	}
	set := p.tables()
	if set == nil || len(set.tables) == 0 {
		return nil, nil
	}
	rw, err := rewrite.New(p.dialect, set.tables)
	if err != nil {
		return nil, err
	}
	r := &rules{number: lastRules.Add(1), set: set, rewriter: rw}
	p.rules.Store(r)
	return r, nil
}

// columns returns the checked table's columns, or nil.
func (p *pool) info(key checkKey) *dialects.TableInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checked[key]
}

// forget drops what was read of the tables, and the plans made from it.
func (p *pool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checked = nil
	p.forgot++
	p.rules.Store(nil)
}

// doubt drops a plan that hangs on the columns of its tables, and what was
// read of these.
func (p *pool) doubt(doubted *plan) {
	if r := p.made(); r != nil {
		r.plans.drop(doubted)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgot++
	for _, g := range doubted.Guards {
		delete(p.checked, checkKey{g.Table, g.Name})
	}
}

// maxChecked bounds what is kept of tables: a program may write each in
// thousands of schemas.
const maxChecked = 4096

// check asks the database, once, whether the table is as registered.
func (p *pool) check(ctx context.Context, q dialects.Querier, key checkKey, again bool) (*dialects.TableInfo, error) {
	if info := p.info(key); info != nil && !again {
		return info, nil
	}
	p.mu.Lock()
	forgot := p.forgot
	p.mu.Unlock()
	info, problem, err := p.dialect.Check(ctx, q, dialects.CheckedTable{
		Name: key.name, Fence: key.table.Fence, Key: key.table.Key, Encoding: key.table.Encoding,
	})
	if err != nil {
		return nil, err
	}
	if problem != nil {
		return nil, &SchemaError{Table: key.table.Name, Reason: problem.Reason, DDL: problem.DDL}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forgot != forgot {
		return info, nil // it may have changed while it was read
	}
	if p.checked == nil || len(p.checked) >= maxChecked {
		p.checked = map[checkKey]*dialects.TableInfo{}
	}
	// The name is a part of the statement that was the first to have it.
	key.name = dialects.Name{Schema: strings.Clone(key.name.Schema), Table: strings.Clone(key.name.Table)}
	p.checked[key] = info
	return info, nil
}
