package doctor

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/words"
)

// The checks of a server's settings.

// The oldest versions that berth runs on.
const (
	oldest        = 6*100 + 2 // 6.2: what the scripts use
	oldestCluster = 7 * 100   // 7.0: sharded pub/sub
)

func (p *patient) version(_ context.Context, n node) Finding {
	name, version := "Redis", n.info["redis_version"]
	if v := n.info["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	parts := strings.Split(version+".0", ".")
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	switch {
	case err1 != nil || err2 != nil:
		f := p.untold("its version")
		f.Advice = "Make sure that it is Redis 6.2 or later (7.0 for Cluster), or Valkey; give the user +info to have it checked."
		return f
	case major*100+minor < oldest:
		return fail("Upgrade to 6.2 or later.", "%s %s lacks what berth's script uses", name, version)
	case n.info["arch_bits"] == "32":
		return fail("Use a build of 64 bits.", "%s %s is a build of 32 bits, whose numbers are too small for berth's script", name, version)
	case p.clustered() && major*100+minor < oldestCluster:
		return fail("Upgrade to 7.0 or later.", "%s %s has no sharded pub/sub, by which waiters in a Cluster are woken", name, version)
	}
	return found("%s %s", name, version)
}

// untold is the finding if INFO has nothing about a subject.
func (p *patient) untold(what string) Finding {
	const advice = "Give the user +info, or look it up where the server is configured."
	if denied(p.infoErr) {
		return warn(advice, "not checked: this user may not use INFO, which shows %s", what)
	}
	f := warn(advice, "the server does not show %s", what)
	if p.infoErr != nil {
		f.Found += " (" + short(p.infoErr) + ")"
	}
	return f
}

func (p *patient) cluster(ctx context.Context, _ node) Finding {
	c, clustered := p.Redis.(*redis.ClusterClient)
	if !clustered {
		if p.nodes[0].info["cluster_enabled"] == "1" {
			return fail("Use redis+cluster://HOST:PORT (in a program: redis.NewClusterClient).",
				"the server is part of a Redis Cluster, but is used as if it were alone: it refuses most names")
		}
		return found("not a Cluster")
	}
	text, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return warn("Give the user +cluster|info to have it checked.", "the Cluster does not show its state (%s)", short(err))
	}
	info := fields(text)
	if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != "16384" {
		return fail("Repair it: `redis-cli --cluster check HOST:PORT` lists what is missing.",
			"the Cluster's state is %q, and %s of 16384 slots are served: semaphores in the others do not work",
			info["cluster_state"], info["cluster_slots_ok"])
	}
	return found("all 16384 slots are served, by %d masters", len(p.nodes))
}

func (p *patient) memory(_ context.Context, n node) Finding {
	policy := n.info["maxmemory_policy"]
	if policy == "" {
		return p.untold("its eviction policy")
	}
	used, _ := strconv.ParseFloat(n.info["used_memory"], 64)
	most, _ := strconv.ParseFloat(n.info["maxmemory"], 64)
	usedText, mostText := n.info["used_memory_human"], n.info["maxmemory_human"]
	evicts := strings.HasPrefix(policy, "allkeys")
	const keep = "Set maxmemory-policy noeviction, or give berth its own server."
	const free = "Raise maxmemory, or free some: at the limit, acquires are refused while releases pass."
	switch {
	case evicts && most > 0:
		return fail(keep, "when memory is short (maxmemory %s) the server deletes semaphores like any other keys (%s): "+
			"permits would be granted twice", mostText, policy)
	case most > 0 && used >= most:
		return fail(free, "memory is full: %s of %s (maxmemory) in use", usedText, mostText)
	case evicts:
		return warn(keep, "maxmemory-policy is %s: as soon as somebody sets maxmemory, the server may delete semaphores, "+
			"and permits would be granted twice", policy)
	case most > 0 && used >= most*9/10:
		return warn(free, "memory is nearly full: %s of %s (maxmemory) in use", usedText, mostText)
	case policy == "noeviction" && most == 0:
		return found("nothing is evicted (maxmemory-policy noeviction, maxmemory without bound)")
	case policy == "noeviction":
		return found("nothing is evicted (maxmemory-policy noeviction, maxmemory %s)", mostText)
	}
	return found("maxmemory-policy %s evicts only keys with a TTL: programs give keys in use none, and take it off within "+
		"a minute where the policy was another one (see keyspace); what crashed clients leave stays until the next request", policy)
}

func (p *patient) persistence(ctx context.Context, n node) Finding {
	aof, told := n.info["aof_enabled"]
	switch {
	case !told:
		return p.untold("whether it keeps its data")
	case n.info["loading"] == "1":
		return fail("Wait until it has loaded its data.", "the server is loading its data, and answers nothing until it has")
	case n.info["aof_last_write_status"] == "err", n.info["rdb_last_bgsave_status"] == "err":
		return fail("Look at the server's log: mostly its disk is full or its directory not writable.",
			"the server cannot write to its disk: it refuses writes, or loses them at a restart")
	case aof != "1":
		snapshots := "keeps nothing"
		if save, known := n.setting(ctx, "save"); known && save != "" {
			snapshots = "goes back to its last snapshot"
		}
		return warn("Set appendonly yes (and appendfsync always if no grant may be lost), or accept it: "+
			"resources that check tokens refuse the older holder.",
			"the append-only file is off: a server that restarts %s, and permits that are out are granted again", snapshots)
	}
	sync, known := n.setting(ctx, "appendfsync")
	switch {
	case !known:
		return found("the append-only file is on; how often it reaches the disk may not be read")
	case sync == "always":
		return found("the append-only file is on, and on disk before every answer")
	case sync == "no":
		return warn("Set appendfsync everysec or always.",
			"the append-only file is on, but the system decides when it reaches the disk: a power cut can lose half a minute")
	}
	return found("the append-only file is on; a crash of the machine can lose the last second (appendfsync %s)", sync)
}

func (p *patient) replication(ctx context.Context, n node) Finding {
	role, told := n.info["role"]
	if !told {
		return p.untold("its role")
	}
	if role != "master" {
		return fail("Connect to the master, or by redis+sentinel:// to whichever server is master.",
			"the server is a replica: it refuses every acquire, and its link to its master is %s", n.info["master_link_status"])
	}
	replicas, _ := strconv.Atoi(n.info["connected_slaves"])
	least, _ := n.setting(ctx, "min-replicas-to-write")
	wanted, _ := strconv.Atoi(least)
	switch {
	case wanted > replicas:
		return fail("Start the missing replicas, or lower min-replicas-to-write.",
			"the master has %d replicas and wants %d (min-replicas-to-write): it refuses writes", replicas, wanted)
	case replicas == 0:
		return found("a master without replicas: there is nothing to fail over to, and nothing to lose by that")
	case wanted == 0:
		return warn("Set min-replicas-to-write 1 to stop a master that is cut off, use MinReplicas in Go programs for grants that must outlive one, "+
			"and let resources check tokens.",
			"a master with %s, copied to asynchronously: a failover can lose the latest grants, "+
				"and until their holders notice (a third of a TTL at most) the limit can be exceeded", words.Plural(replicas, "replica"))
	}
	return warn("Let resources check tokens, or accept it.",
		"a master with %s, copied to asynchronously: a failover can lose grants of the last seconds, though a master "+
			"without %s stops (min-replicas-to-write)", words.Plural(replicas, "replica"), words.Plural(wanted, "replica"))
}
