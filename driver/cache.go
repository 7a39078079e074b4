package fencedsql

import (
	"hash/maphash"
	"strings"
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
	cacheBytes    = 16 << 20
	cacheMaxEntry = 128 << 10 // a larger text is planned each time it is sent
)

// plan is a cached decision.
type plan struct {
	*rewrite.Plan
	text  string
	mode  dialects.Mode
	hash  uint64
	size  int64
	plain bool // Plan.Plain
	// checked is set when the columns of all its tables were checked.
	checked atomic.Bool
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

func (c *planCache) get(text string, mode dialects.Mode) *plan {
	h := c.hash(text)
	set := &c.sets[h%cacheSets]
	for i := range set {
		if p := set[i].Load(); p != nil && p.hash == h && p.mode == mode && p.text == text {
			return p
		}
	}
	return nil
}

// put caches a plan and returns its entry; one that is too large is returned
// without being kept.
func (c *planCache) put(text string, mode dialects.Mode, decided *rewrite.Plan) *plan {
	p := &plan{Plan: decided, text: text, mode: mode, hash: c.hash(text), plain: decided.Plain()}
	p.size = sizeOf(p)
	if p.size > cacheMaxEntry {
		return p
	}
	p.text = strings.Clone(text) // the caller's may be a part of something large

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

func (c *planCache) replace(slot *atomic.Pointer[plan], p *plan) {
	if old := slot.Swap(p); old != nil {
		c.bytes.Add(-old.size)
	}
	if p != nil {
		c.bytes.Add(p.size)
	}
}

// sizeOf is about what an entry takes, structures included.
func sizeOf(p *plan) int64 {
	n := int(unsafe.Sizeof(*p)) + len(p.text)
	if p.plain {
		return int64(n) // all such share one plan
	}
	n += int(unsafe.Sizeof(*p.Plan)) + len(p.Text) + 8*len(p.Args) + 16*len(p.Names) + 24*len(p.Tx)
	for _, g := range p.Guards {
		n += int(unsafe.Sizeof(g)) + len(g.Name.Table) + len(g.Name.Schema)
		if g.Probe != nil {
			n += len(g.Probe.Text) + 64
		}
	}
	if p.First != nil {
		n += len(p.First.Text) + 8*len(p.First.Args) + 64
	}
	if p.Refusal != nil {
		n += int(unsafe.Sizeof(*p.Refusal)) + len(p.Refusal.Reason)
	}
	return int64(n)
}
