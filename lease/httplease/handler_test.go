package httplease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/lease"
)

// fences are not what Lease-Fence holds.
var fences = []string{
	"", "0", "000", strings.Repeat("0", 40), "+1", "-1", "1e3", "0x1", "1_000", "1.0", " 1", "1 ", "1,2", "1, 2", "١", "\x00",
	"340282366920938463463374607431768211456", strings.Repeat("0", 40) + "1", strings.Repeat("9", 10000), "<script>",
}

// serve gives the handler one request with these fields and returns the answer and the context that next got.
func serve(ctx context.Context, h http.Header) (*http.Response, context.Context) {
	var got context.Context
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Context() })
	r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	r.Header = h
	w := httptest.NewRecorder()
	Handler(next).ServeHTTP(w, r)
	return w.Result(), got
}

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		key, fence string
		want       lease.Fence
	}{
		{"chat/42", "7", lease.Fence{Count: 7}},
		{"", "18446744073709551623", lease.Fence{Epoch: 1, Count: 7}},
		{"k", lease.Fence{Count: 7}.Text(), lease.Fence{Count: 7}},
		{"k", "340282366920938463463374607431768211455", lease.Fence{Epoch: ^uint64(0), Count: ^uint64(0)}},
	} {
		resp, ctx := serve(t.Context(), http.Header{KeyHeader: {tt.key}, FenceHeader: {tt.fence}})
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%q %q: %s", tt.key, tt.fence, resp.Status)
		}
		l, ok := lease.FromContext(ctx)
		if !ok || l.Key() != tt.key || l.Fence() != tt.want || l.Err() != nil {
			t.Errorf("%q %q: %q, %v, %v", tt.key, tt.fence, l.Key(), l.Fence(), l.Err())
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	type header = http.Header
	type refusal struct {
		header header
		want   error
	}
	cases := map[string]refusal{
		"key only":            {header{KeyHeader: {"chat/42"}}, errOne},
		"fence only":          {header{FenceHeader: {"7"}}, errOne},
		"two keys":            {header{KeyHeader: {"chat/42", "chat/42"}, FenceHeader: {"7"}}, errRepeated},
		"two fences":          {header{KeyHeader: {"chat/42"}, FenceHeader: {"7", "7"}}, errRepeated},
		"two keys, joined":    {header{KeyHeader: {"chat/42,chat/42"}, FenceHeader: {"7"}}, errBadKey},
		"two keys, joined, 2": {header{KeyHeader: {"chat/42, chat/42"}, FenceHeader: {"7"}}, errBadKey},
		"script in the key":   {header{KeyHeader: {"<script> "}, FenceHeader: {"7"}}, errBadKey},
		"bad key":             {header{KeyHeader: {"%zz"}, FenceHeader: {"7"}}, errBadKey},
		"long key":            {header{KeyHeader: {strings.Repeat("k", maxKey+1)}, FenceHeader: {"7"}}, errBadKey},
	}
	for i, fence := range fences {
		want := errBadFence
		if fence != "" && len(fence) <= 40 && strings.Trim(fence, "0") == "" {
			want = errZeroFence
		}
		cases[fmt.Sprintf("fence %d %.20q", i, fence)] = refusal{header{KeyHeader: {"chat/42"}, FenceHeader: {fence}}, want}
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			resp, ctx := serve(t.Context(), tt.header)
			if resp.StatusCode != http.StatusBadRequest || ctx != nil {
				t.Errorf("%s; next was called: %t", resp.Status, ctx != nil)
			}
			if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type: %s", got)
			}
			if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options: %s", got)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if string(body) != tt.want.Error()+"\n" { // whole: nothing of the request is in it
				t.Errorf("the answer is %q, want %q", body, tt.want)
			}
		})
	}
}

func TestHandlerWithoutFields(t *testing.T) {
	resp, ctx := serve(t.Context(), http.Header{"Accept": {"*/*"}})
	if resp.StatusCode != http.StatusOK || ctx != t.Context() {
		t.Errorf("%s, the context is %v", resp.Status, ctx)
	}
	if _, ok := lease.FromContext(ctx); ok {
		t.Error("a lease from nowhere")
	}
}

// TestHandlerInsideLease: the server holds a lease of its own, or a handler further out has read the fields already.
func TestHandlerInsideLease(t *testing.T) {
	own := lease.New("server", lease.Fence{Count: 99})
	defer own.Lose(nil)
	_, ctx := serve(own.Context(t.Context()), http.Header{})
	if l, ok := lease.FromContext(ctx); ok {
		t.Errorf("a request without a lease got the server's, %q", l.Key())
	}

	fields := http.Header{KeyHeader: {"k"}, FenceHeader: {"7"}}
	_, ctx = serve(own.Context(t.Context()), fields)
	if l, _ := lease.FromContext(ctx); l.Key() != "k" || l.Fence() != (lease.Fence{Count: 7}) {
		t.Errorf("got the lease %q %v", l.Key(), l.Fence())
	}

	var twice *lease.Lease
	r := httptest.NewRequest("GET", "/", nil)
	r.Header = fields
	Handler(Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		twice, _ = lease.FromContext(r.Context())
	}))).ServeHTTP(httptest.NewRecorder(), r)
	if twice.Key() != "k" || twice.Fence() != (lease.Fence{Count: 7}) {
		t.Errorf("got the lease %q %v", twice.Key(), twice.Fence())
	}
}

// TestHandlerContext: the context lives as long as the request, the lease is never lost.
func TestHandlerContext(t *testing.T) {
	errGone := errors.New("gone")
	parent, cancel := context.WithCancelCause(t.Context())
	r := httptest.NewRequestWithContext(parent, "GET", "/", nil)
	r.Header = http.Header{KeyHeader: {"k"}, FenceHeader: {"7"}}
	Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if ctx.Err() != nil {
			t.Errorf("ended at once: %v", ctx.Err())
		}
		cancel(errGone)
		if ctx.Err() != context.Canceled || context.Cause(ctx) != errGone {
			t.Errorf("the request ended, the context has %v and %v", ctx.Err(), context.Cause(ctx))
		}
		if l, _ := lease.FromContext(ctx); l.Err() != nil {
			t.Errorf("lost: %v", l.Err())
		}
	})).ServeHTTP(httptest.NewRecorder(), r)

	_, ctx := serve(t.Context(), r.Header)
	if ctx.Err() != context.Canceled {
		t.Errorf("next has returned, the context has %v", ctx.Err())
	}
	detached := context.WithoutCancel(ctx) // as for work that goes on behind a 202
	if l, ok := lease.FromContext(detached); !ok || l.Err() != nil || l.Context(t.Context()).Err() != nil {
		t.Error("the lease ended with the request")
	}
}

// TestHandlerKeepsNothing: whatever context the requests come in with, they leave nothing behind in it.
func TestHandlerKeepsNothing(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := http.Header{KeyHeader: {"k"}, FenceHeader: {"7"}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 10_000 {
		serve(parent, h)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes kept", grown)
	}
}
