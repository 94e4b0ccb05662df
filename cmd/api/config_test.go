package main

import (
	"bytes"
	"strings"
	"testing"
)

// settings is the table of the configuration in the documents.
var settings = []struct{ flag, variable, byDefault string }{
	{"--listen", "HOLDFAST_LISTEN", `"127.0.0.1:8080"`},
	{"--insecure", "HOLDFAST_INSECURE", ""},
	{"--etcd", "HOLDFAST_ETCD", "ENDPOINT,..."},
	{"--etcd-ca", "HOLDFAST_ETCD_CA", "FILE"},
	{"--etcd-cert", "HOLDFAST_ETCD_CERT", "FILE"},
	{"--etcd-key", "HOLDFAST_ETCD_KEY", "FILE"},
	{"--etcd-user", "HOLDFAST_ETCD_USER", "NAME"},
	{"--etcd-password-file", "HOLDFAST_ETCD_PASSWORD_FILE", "FILE"},
	{"--etcd-timeout", "HOLDFAST_ETCD_TIMEOUT", "5s"},
	{"--data-dir", "HOLDFAST_DATA_DIR", `"holdfast-data"`},
	{"--prefix", "HOLDFAST_PREFIX", `"/holdfast/v1/"`},
	{"--undeclared", "HOLDFAST_UNDECLARED", `"allow"`},
	{"--default-ttl", "HOLDFAST_DEFAULT_TTL", "10s"},
	{"--default-transition", "HOLDFAST_DEFAULT_TRANSITION", "6s"},
	{"--max-wait", "HOLDFAST_MAX_WAIT", "50s"},
	{"--drain", "HOLDFAST_DRAIN", "10s"},
	{"--pprof", "HOLDFAST_PPROF", "ADDRESS"},
	{"--log-level", "HOLDFAST_LOG_LEVEL", "info"},
	{"--log-format", "HOLDFAST_LOG_FORMAT", `"auto"`},
}

func help(t *testing.T) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), []string{"--help"}, &stdout, &stderr); got != 0 || stderr.Len() > 0 {
		t.Fatalf("got status %d and %q for --help", got, stderr.String())
	}
	return stdout.String()
}

func TestHelpIsTheManual(t *testing.T) {
	text := help(t)
	for _, s := range settings {
		want := s.flag
		if s.byDefault != "" {
			want += "=" + s.byDefault
		}
		if !strings.Contains(text, want+" ") && !strings.Contains(text, want+"\n") {
			t.Errorf("help lacks %s", want)
		}
		if !strings.Contains(text, "($"+s.variable+")") {
			t.Errorf("help lacks %s", s.variable)
		}
	}
	if got, want := strings.Count(text, "($HOLDFAST_"), len(settings); got != want {
		t.Errorf("help has %d settings, this table %d", got, want)
	}
}

func TestEnvironmentAndFlags(t *testing.T) {
	t.Setenv("HOLDFAST_ETCD", "a:1,b:2")
	t.Setenv("HOLDFAST_MAX_WAIT", "20s")
	t.Setenv("HOLDFAST_INSECURE", "true")
	t.Setenv("HOLDFAST_LOG_LEVEL", "warn")
	cfg, ok, err := parse([]string{"--max-wait=30s", "--listen=0.0.0.0:80"}, new(bytes.Buffer))
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	if got := strings.Join(cfg.Etcd, " "); got != "a:1 b:2" {
		t.Errorf("got endpoints %q, want both", got)
	}
	if got := cfg.MaxWait.String(); got != "30s" {
		t.Errorf("got --max-wait %s, want the flag before the variable", got)
	}
	if !cfg.Insecure {
		t.Error("got no --insecure, want that of the variable")
	}
	if got := cfg.LogLevel.String(); got != "WARN" {
		t.Errorf("got --log-level %s, want WARN", got)
	}
}

func TestGoodValues(t *testing.T) {
	for _, args := range []string{
		"",
		"--listen=localhost:0",
		"--listen=[::1]:0",
		"--listen=127.8.8.8:80",
		"--listen=:0 --insecure",
		"--default-transition=0s --drain=0s --max-wait=1ms",
		"--default-ttl=24h --default-transition=1h --max-wait=1h",
		"--etcd=localhost:2379,http://10.0.0.1:2379",
		"--etcd=https://[::1]:2379 --etcd-ca=a --etcd-cert=b --etcd-key=c --etcd-user=u --etcd-password-file=p",
		"--etcd=unix:///run/etcd.sock",
		"--etcd=a:1 --data-dir=",
	} {
		if _, _, err := parse(strings.Fields(args), new(bytes.Buffer)); err != nil {
			t.Errorf("%s: got %v, want it accepted", args, err)
		}
	}
}
