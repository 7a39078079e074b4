package httplease

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/fencedsql/fencedsql/lease"
)

// base is a RoundTripper that remembers what it was given.
type base struct {
	sent []*http.Request
	do   func(*http.Request) (*http.Response, error)
	idle int
}

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	b.sent = append(b.sent, r)
	if b.do != nil {
		return b.do(r)
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil // Request is nil
}

func (b *base) CloseIdleConnections() { b.idle++ }

// body is a request's body that knows whether it was closed.
type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error { b.closed++; return nil }

func newRequest(t *testing.T, ctx context.Context, url string) (*http.Request, *body) {
	t.Helper()
	b := &body{Reader: strings.NewReader("content")}
	req, err := http.NewRequestWithContext(ctx, "POST", url, b)
	if err != nil {
		t.Fatal(err)
	}
	return req, b
}

func held(key string, count uint64) *lease.Lease { return lease.New(key, lease.Fence{Count: count}) }

// TestOverTheWire: every key gets through to the service.
func TestOverTheWire(t *testing.T) {
	var got *lease.Lease
	service := httptest.NewServer(Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = lease.FromContext(r.Context())
	})))
	defer service.Close()
	client := &http.Client{Transport: &Transport{}}
	defer client.CloseIdleConnections()
	for _, key := range keys {
		got = nil
		l := lease.New(key, lease.Fence{Epoch: 1, Count: 7})
		req, b := newRequest(t, l.Context(t.Context()), service.URL)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || got.Key() != key || got.Fence() != l.Fence() {
			t.Errorf("key %q: %s, got %q %v", key, resp.Status, got.Key(), got.Fence())
		}
		if b.closed == 0 {
			t.Error("the body was not closed")
		}
	}
}

func TestTransportSends(t *testing.T) {
	semaphore := lease.New("s", lease.Fence{})
	l := lease.New("chat 42", lease.Fence{Epoch: 1, Count: 7})
	for name, tt := range map[string]struct {
		ctx  context.Context
		want http.Header
	}{
		"lease":           {l.Context(t.Context()), http.Header{KeyHeader: {"chat%2042"}, FenceHeader: {"18446744073709551623"}}},
		"inner lease":     {held("k", 8).Context(l.Context(t.Context())), http.Header{KeyHeader: {"k"}, FenceHeader: {"8"}}},
		"no lease":        {t.Context(), http.Header{}},
		"without":         {lease.Without(l.Context(t.Context())), http.Header{}},
		"semaphore":       {semaphore.Context(t.Context()), http.Header{}},
		"inner semaphore": {semaphore.Context(l.Context(t.Context())), http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			for name, h := range map[string]http.Header{
				"bare":    {"Accept": {"a", "b"}},
				"by hand": {"Accept": {"a", "b"}, KeyHeader: {"other"}, FenceHeader: {"99", "100"}, "lease-fence": {"101"}, "LEASE-KEY": {"another"}},
				"nil":     nil,
			} {
				req, _ := newRequest(t, tt.ctx, "http://service.test/path")
				req.Header = h
				req.Trailer = http.Header{"Sum": nil}
				before := h.Clone()
				b := &base{}
				if _, err := (&Transport{Base: b}).RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				want := maps.Clone(tt.want)
				if h != nil {
					want["Accept"] = []string{"a", "b"}
				}
				sent := b.sent[0]
				if !maps.EqualFunc(sent.Header, want, equal) {
					t.Errorf("%s: sent %v, want %v", name, sent.Header, want)
				}
				if !maps.EqualFunc(req.Header, before, equal) || (req.Header == nil) != (before == nil) {
					t.Errorf("%s: the caller's header is now %v", name, req.Header)
				}
				req.Trailer.Set("Sum", "known at the end of the body")
				if sent.Trailer.Get("Sum") == "" || sent.Context() != req.Context() || sent.Body != req.Body || sent.URL != req.URL {
					t.Errorf("%s: not the same request", name)
				}
				for _, values := range sent.Header {
					values[0] = "changed"
				}
				if !maps.EqualFunc(req.Header, before, equal) {
					t.Errorf("%s: the caller's header shares values", name)
				}
			}
		})
	}
}

func equal(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }

// refused checks that a request with ctx comes back with an error, nothing sent and the body closed.
func refused(t *testing.T, ctx context.Context) error {
	t.Helper()
	b := &base{}
	req, content := newRequest(t, ctx, "http://service.test/")
	resp, err := (&Transport{Base: b}).RoundTrip(req)
	if err == nil || resp != nil || len(b.sent) != 0 {
		t.Fatalf("%v, %v, %d requests sent", resp, err, len(b.sent))
	}
	if content.closed != 1 {
		t.Errorf("the body was closed %d times", content.closed)
	}
	if !strings.Contains(err.Error(), "not sent") {
		t.Errorf("the error is %v", err)
	}
	req.Body = nil // as in a GET
	if _, again := (&Transport{Base: b}).RoundTrip(req); again == nil || again.Error() != err.Error() || len(b.sent) != 0 {
		t.Errorf("without a body: %v", again)
	}
	return err
}

func TestLostBefore(t *testing.T) {
	why := errors.New("why")
	semaphore := lease.New("s", lease.Fence{})
	for _, l := range []*lease.Lease{held("k", 7), semaphore} {
		ctx := l.Context(t.Context())
		l.Lose(why)
		for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx), l.Context(t.Context())} {
			if err := refused(t, ctx); !errors.Is(err, lease.ErrLost) || !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
		}
	}
}

func TestKeyThatCannotBeSent(t *testing.T) {
	for name, key := range map[string]string{"not UTF-8": "a\xff", "too long": strings.Repeat("k", maxKey+1)} {
		err := refused(t, held(key, 7).Context(t.Context()))
		if errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "512") || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLostMeanwhile: the error says so, whatever the transport below makes of the end of the context.
func TestLostMeanwhile(t *testing.T) {
	why := errors.New("why")
	other := errors.New("other")
	for name, answer := range map[string]func(context.Context) error{
		"Err":   func(ctx context.Context) error { return ctx.Err() },
		"Cause": func(ctx context.Context) error { return context.Cause(ctx) },
		"other": func(context.Context) error { return other },
	} {
		l := held("k", 7)
		req, _ := newRequest(t, l.Context(t.Context()), "http://service.test/")
		var below error
		_, err := (&Transport{Base: &base{do: func(r *http.Request) (*http.Response, error) {
			l.Lose(why)
			below = answer(r.Context())
			return nil, below
		}}}).RoundTrip(req)
		if !errors.Is(err, lease.ErrLost) || !errors.Is(err, why) || !errors.Is(err, below) || strings.Count(err.Error(), "lost") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}

	// An error of a request whose lease is held, or that has none, is that of the transport below.
	for _, ctx := range []context.Context{t.Context(), held("k", 7).Context(t.Context())} {
		req, _ := newRequest(t, ctx, "http://service.test/")
		b := &base{do: func(*http.Request) (*http.Response, error) { return nil, other }}
		if _, err := (&Transport{Base: b}).RoundTrip(req); err != other {
			t.Errorf("got %v", err)
		}
	}

	// And an answer is an answer.
	l := held("k", 7)
	req, _ := newRequest(t, l.Context(t.Context()), "http://service.test/")
	b := &base{do: func(*http.Request) (*http.Response, error) { l.Lose(why); return &http.Response{StatusCode: 204}, nil }}
	if resp, err := (&Transport{Base: b}).RoundTrip(req); err != nil || resp.StatusCode != 204 {
		t.Errorf("got %v, %v", resp, err)
	}
}

// TestLostMeanwhileOverTheWire: the request ends on both sides, with HTTP/1.1 and HTTP/2.
func TestLostMeanwhileOverTheWire(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		arrived, ended := make(chan int), make(chan error)
		service := httptest.NewUnstartedServer(Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			arrived <- r.ProtoMajor
			<-r.Context().Done()
			ended <- r.Context().Err()
		})))
		service.EnableHTTP2 = http2
		service.StartTLS()
		l := held("k", 7)
		go func() {
			if major := <-arrived; (major == 2) != http2 {
				t.Errorf("HTTP/%d", major)
			}
			l.Lose(nil)
		}()
		req, _ := newRequest(t, l.Context(t.Context()), service.URL)
		client := &http.Client{Transport: &Transport{Base: service.Client().Transport}}
		if _, err := client.Do(req); !errors.Is(err, lease.ErrLost) {
			t.Errorf("HTTP/2 %t: %v", http2, err)
		}
		if err := <-ended; err != context.Canceled {
			t.Errorf("HTTP/2 %t: the service's context has %v", http2, err)
		}
		client.CloseIdleConnections()
		service.Close()
	}
}

func TestRedirects(t *testing.T) {
	var seen []string
	note := func(name string, next http.Handler) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, name+r.URL.Path+":"+r.Header.Get(KeyHeader)+r.Header.Get(FenceHeader))
			next.ServeHTTP(w, r)
		}))
	}
	away, home := http.NewServeMux(), http.NewServeMux()
	a, b := note("a", home), note("b", away)
	defer a.Close()
	defer b.Close()
	to := func(url string) http.Handler { return http.RedirectHandler(url, http.StatusTemporaryRedirect) }
	done := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	home.Handle("/same", to("/done"))
	home.Handle("/away", to(b.URL+"/done"))
	home.Handle("/around", to(b.URL+"/back"))
	home.Handle("/done", done)
	away.Handle("/back", to(a.URL+"/same"))
	away.Handle("/done", done)

	ctx := held("k", 7).Context(t.Context())
	for path, want := range map[string]string{
		"/same":   "a/same:k7 a/done:k7",
		"/away":   "a/away:k7 b/done:",
		"/around": "a/around:k7 b/back: a/same: a/done:",
	} {
		for _, byHand := range []bool{false, true} {
			seen = nil
			req, err := http.NewRequestWithContext(ctx, "POST", a.URL+path, strings.NewReader("content"))
			if err != nil {
				t.Fatal(err)
			}
			if byHand { // net/http copies these from request to request
				req.Header.Set(KeyHeader, "other")
				req.Header.Set(FenceHeader, "9")
			}
			resp, err := (&http.Client{Transport: &Transport{}}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := strings.Join(seen, " "); got != want || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s, saw %s, want %s", path, resp.Status, got, want)
			}
		}
	}
}

// TestRedirectFrom: what RoundTrip knows of the request before.
func TestRedirectFrom(t *testing.T) {
	request := func(from *http.Request, target string) *http.Request {
		req, _ := newRequest(t, held("k", 7).Context(t.Context()), target)
		if from != nil {
			req.Response = &http.Response{Request: from}
		}
		return req
	}
	unknown := request(nil, "https://a.test/")
	unknown.Response = &http.Response{}
	for name, tt := range map[string]struct {
		req  *http.Request
		want bool
	}{
		"none":            {request(nil, "https://a.test/"), true},
		"same":            {request(request(nil, "https://a.test/1"), "https://a.test/2"), true},
		"case":            {request(request(nil, "https://a.test/1"), "https://A.TEST/2"), true},
		"host":            {request(request(nil, "https://a.test/"), "https://b.test/"), false},
		"subdomain":       {request(request(nil, "https://a.test/"), "https://b.a.test/"), false},
		"port":            {request(request(nil, "https://a.test/"), "https://a.test:8443/"), false},
		"not encrypted":   {request(request(nil, "https://a.test/"), "http://a.test/"), false},
		"back":            {request(request(request(nil, "https://a.test/"), "https://b.test/"), "https://a.test/"), false},
		"unknown request": {unknown, false},
	} {
		b := &base{}
		if _, err := (&Transport{Base: b}).RoundTrip(tt.req); err != nil {
			t.Fatal(err)
		}
		if _, got := b.sent[0].Header[FenceHeader]; got != tt.want {
			t.Errorf("%s: sent %t", name, got)
		}
	}
}

// TestReverseProxy: a proxy passes on what its Handler has read, and not what a client made up.
func TestReverseProxy(t *testing.T) {
	var got http.Header
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer service.Close()
	target, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &Transport{},
	}
	for _, tt := range []struct {
		handler    http.Handler
		key, fence string
	}{{proxy, "", ""}, {Handler(proxy), "made%20up", "99"}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(KeyHeader, "made%20up")
		r.Header.Set(FenceHeader, "99")
		w := httptest.NewRecorder()
		tt.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK || got.Get(KeyHeader) != tt.key || got.Get(FenceHeader) != tt.fence {
			t.Errorf("%d, the service got %v", w.Code, got)
		}
	}
}

func TestCloseIdleConnections(t *testing.T) {
	b := &base{}
	(&http.Client{Transport: &Transport{Base: b}}).CloseIdleConnections()
	(&Transport{Base: &Transport{Base: b}}).CloseIdleConnections()
	if b.idle != 2 {
		t.Errorf("%d calls, want 2", b.idle)
	}
	(&Transport{Base: struct{ http.RoundTripper }{b}}).CloseIdleConnections() // has no such method
	if b.idle != 2 {
		t.Errorf("%d calls", b.idle)
	}
}
