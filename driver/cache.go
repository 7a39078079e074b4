package fencedsql

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/rewrite"
)

// The plan cache is an array of small sets that are read without a lock. Its
// size is bounded in entries by the array, and in bytes by a count that every
// change of an entry keeps.
const (
	cacheSets     = 512
	cacheWays     = 8
	cacheBytes    = 15 << 20  // of 16 MiB: the array itself and the allocator's rounding take the rest
	cacheMaxEntry = 128 << 10 // a larger text is planned each time it is sent
)

// plan is a cached decision.
type plan struct {
	*rewrite.Plan
	text  string
	mode  dialects.Mode
	loose bool // the plan is of Rewriter.Loose
	hash  uint64
	size  int64 // 0 for one that is not to be kept
	// plain is Plan.Plain, unread Plan.Unread, and quiet is true when the text
	// changes nothing that the connection or the pool follows.
	plain, unread, quiet bool
	// direct is true when Text alone is sent, and what it gives is the
	// caller's. coding and probe are of its first guard.
	direct bool
	coding coding
	probe  *rewrite.Query
	// checked is set when the columns of all its tables were checked, and key
	// before that, to what the key of the first one may be compared with.
	checked atomic.Bool
	key     atomic.Pointer[[]dialects.KeyType]
}

type planCache struct {
	sets  [cacheSets][cacheWays]atomic.Pointer[plan]
	seed  maphash.Seed
	once  sync.Once
	mu    sync.Mutex // held to change entries
	bytes atomic.Int64
	hand  uint64 // where the next eviction begins
}

func (c *planCache) hash(text string) uint64 {
	c.once.Do(func() { c.seed = maphash.MakeSeed() })
	return maphash.String(c.seed, text)
}

func (c *planCache) get(text string, mode dialects.Mode, loose bool) *plan {
	h := c.hash(text)
	set := &c.sets[h%cacheSets]
	for i := range set {
		if p := set[i].Load(); p != nil && p.hash == h && p.mode == mode && p.loose == loose && p.text == text {
			return p
		}
	}
	return nil
}

// newPlan is a decision on a text that no cache keeps yet.
func newPlan(text string, mode dialects.Mode, loose bool, decided *rewrite.Plan) *plan {
	p := &plan{Plan: decided, text: text, mode: mode, loose: loose, plain: decided.Plain(), unread: decided.Unread}
	if decided.Verdict == rewrite.Fence {
		p.direct = decided.First == nil && !decided.Count
		p.coding, p.probe = codingOf(decided.Guards[0].Table), decided.Guards[0].Probe
	}
	p.quiet = decided.Tx == nil && !decided.TxUnknown && !decided.SetsMode && !decided.Defines
	return p
}

// put caches the plan of a text that is the cache's own, and returns its entry;
// one that is too large is returned without being kept.
func (c *planCache) put(text string, mode dialects.Mode, loose bool, decided *rewrite.Plan) *plan {
	p := newPlan(text, mode, loose, decided)
	p.hash, p.size = c.hash(text), sizeOf(p)
	if p.size > cacheMaxEntry {
		return p
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	set := &c.sets[p.hash%cacheSets]
	c.hand++
	slot := &set[c.hand%cacheWays]
	for i := range set {
		if set[i].Load() == nil {
			slot = &set[i]
			break
		}
	}
	c.replace(slot, p)
	for c.bytes.Load() > cacheBytes {
		c.hand++
		victim := &c.sets[c.hand/cacheWays%cacheSets][c.hand%cacheWays]
		if victim != slot {
			c.replace(victim, nil)
		}
	}
	return p
}

// drop forgets a plan, so that its text is planned anew.
func (c *planCache) drop(p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := &c.sets[p.hash%cacheSets]
	for i := range set {
		if set[i].Load() == p {
			c.replace(&set[i], nil)
		}
	}
}

func (c *planCache) replace(slot *atomic.Pointer[plan], p *plan) {
	if old := slot.Swap(p); old != nil {
		c.bytes.Add(-old.size)
	}
	if p != nil {
		c.bytes.Add(p.size)
	}
}

// sizeOf is what an entry takes, structures included.
func sizeOf(p *plan) int64 {
	n := allocated(unsafe.Sizeof(*p)) + allocated(len(p.text))
	if p.plain {
		return n // all such share one plan
	}
	// Names of tables, parameters and savepoints are parts of the text, or short.
	n += allocated(unsafe.Sizeof(*p.Plan)) + allocated(len(p.Text)) + allocated(8*cap(p.Args)) +
		allocated(16*cap(p.Names)) + allocated(int(unsafe.Sizeof(dialects.TxOp{}))*cap(p.Tx)) +
		allocated(int(unsafe.Sizeof(rewrite.Guard{}))*cap(p.Guards)) + sizeOfQuery(p.First)
	for _, g := range p.Guards {
		n += sizeOfQuery(g.Probe) + allocated(8*cap(g.Key))
	}
	if p.Refusal != nil {
		n += allocated(unsafe.Sizeof(*p.Refusal)) + allocated(len(p.Refusal.Reason))
	}
	return n
}

func sizeOfQuery(q *rewrite.Query) int64 {
	if q == nil {
		return 0
	}
	return allocated(unsafe.Sizeof(*q)) + allocated(len(q.Text)) + allocated(8*cap(q.Args))
}

// allocated is what the allocator takes for n bytes: it rounds up by an eighth at the most, and above 32 KiB to pages.
func allocated[T int | uintptr](n T) int64 {
	if n > 32<<10 {
		return int64(n+8191) &^ 8191
	}
	return int64(n + n/8 + 8)
}
