package operate_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// cluster is an etcd of three members, set as the page says and known by the
// names that the page gives them.
type cluster struct {
	*harness.Etcd
	settings []map[string]any // of each member
}

// startCluster starts one. Only addresses, directories and what is said to the
// log are the test's own.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	said := configured(t)
	c := &cluster{}
	c.Etcd = harness.StartEtcd(t, 3, func(settings map[string]any) {
		for name := range settings {
			if _, ok := said[name]; !ok && name != "log-level" {
				t.Errorf("docs/operations.md does not set %s", name)
			}
		}
		for name, value := range said {
			if _, own := settings[name]; !own {
				settings[name] = value
			}
		}
		settings["name"] = named(len(c.settings))
		peers := settings["initial-cluster"].(string)
		for i := range 3 {
			peers = strings.Replace(peers, fmt.Sprintf("m%d=", i), named(i)+"=", 1)
		}
		settings["initial-cluster"] = peers
		c.settings = append(c.settings, settings)
	})
	return c
}

func named(member int) string { return fmt.Sprintf("etcd-%d", member+1) }

// configured returns the page's configuration of a member.
func configured(t *testing.T) map[string]any {
	t.Helper()
	_, after, _ := strings.Cut(page(t), "\n```yaml\n")
	text, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("docs/operations.md has no configuration of a member")
	}
	said := map[string]any{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		said[name] = value
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			said[name] = n
		}
	}
	return said
}

// urls is the page's list of members, for these of the cluster.
func (c *cluster) urls(members ...int) string {
	var all []string
	for _, i := range members {
		all = append(all, "http://"+c.Members[i].Addr)
	}
	return strings.Join(all, ",")
}

// rejoins starts a member without data, which the others were told of, where
// it was.
func (c *cluster) rejoins(t *testing.T, member int) {
	t.Helper()
	harness.StartEtcd(t, 1, func(settings map[string]any) {
		for name, value := range c.settings[member] {
			settings[name] = value
		}
		settings["initial-cluster-state"] = "existing"
	})
}

// startReplica types the page's line. The port is a free one.
func (c *cluster) startReplica(t *testing.T) *harness.Replica {
	t.Helper()
	line := typed(t, starting, "etcd-1:2379,etcd-2:2379,etcd-3:2379", c.Endpoints())
	return harness.Start(t, append(strings.Fields(line)[1:], "--listen=127.0.0.1:0")...)
}

// The line, the unit and the container are the same replica.
func TestReplicasOfThePage(t *testing.T) {
	line := strings.TrimSpace(typed(t, starting))
	if want := "ExecStart=/usr/local/bin/" + line + "\n"; !strings.Contains(page(t), want) {
		t.Errorf("docs/operations.md: the unit has not %s", want)
	}
	flags := map[string]string{}
	for _, flag := range strings.Fields(line)[1:] {
		name, value, ok := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if !ok {
			value = "true"
		}
		flags[name] = value
	}
	variables := regexp.MustCompile(`--env=HOLDFAST_([A-Z_]+)=(\S+)`).FindAllStringSubmatch(page(t), -1)
	for _, v := range variables {
		name := strings.ReplaceAll(strings.ToLower(v[1]), "_", "-")
		if flags[name] != v[2] {
			t.Errorf("docs/operations.md: the container has %s, want %q as in the line", v[0], flags[name])
		}
		delete(flags, name)
	}
	if len(flags) > 0 {
		t.Errorf("docs/operations.md: the container has not %v", flags)
	}
}
