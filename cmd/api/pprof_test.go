package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestProfilesAreServed(t *testing.T) {
	p, err := openProfiler("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + p.listener.Addr().String() + "/debug/pprof/goroutine?debug=1"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "TestProfilesAreServed") {
		t.Errorf("got %s, %v; want the goroutines", text, err)
	}
	p.Close()
	if resp, err := http.DefaultClient.Do(req.Clone(t.Context())); err == nil {
		_ = resp.Body.Close()
		t.Error("it answers after it was closed")
	}
}

func TestNoProfilesUnlessAsked(t *testing.T) {
	p, err := openProfiler("")
	if p != nil || err != nil {
		t.Errorf("got %v, %v; want none", p, err)
	}
	p.Close()
}
