import { expect, it } from "vitest";
import { isSlow } from "#tests/support/is-slow.ts";
import { agentAttacks } from "./agent-attacks.ts";
import { runAgentFloods } from "./agent-floods.ts";

/** The attacks of the short form. */
const some = ["heartbeats", "448 MiB after gzip"];

it("G9: stays below 350 MB, names the fault and serves others beside sockets of agents that flood it", {
  timeout: 240_000,
}, async () => {
  const names = isSlow ? Object.keys(agentAttacks) : some;
  const { results } = await runAgentFloods({ seconds: 1, warmUpMs: 300, names });
  for (const name of names) {
    const { opened = 0, errors = {}, peak_mb = 0, faults, ack_p99_ms } = results[name] ?? {};
    const error = agentAttacks[name]?.error ?? /^/;
    const isNamed = Object.keys(errors).some((each) => error.test(each)) || error.test("");
    expect
      .soft({ name, isNamed, opened: opened > 0, isBounded: peak_mb <= 350, faults })
      .toEqual({ name, isNamed: true, opened: true, isBounded: true, faults: 0 });
    // The long form allows twice as long as alone: here other tests take the CPU, more of it at one time than at another.
    const alone = results.alone?.ack_p99_ms ?? 0;
    expect.soft(ack_p99_ms, name).toBeLessThan(Math.max(1_000, 20 * alone));
  }
});
