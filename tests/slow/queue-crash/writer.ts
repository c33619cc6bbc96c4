import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { openTestQueue } from "#tests/support/queue.ts";

// The program of the crash test: appends, acknowledges and reports on stdout what the queue guaranteed, until it is killed.
const [dir = "", seed = "0"] = process.argv.slice(2);

const main = async () => {
  const queue = openTestQueue(dir);
  const random = createSeededEntropy(Number(seed));
  const byte = () => random.bytes(1)[0] ?? 0;
  let next = Number(queue.checkpoints("crash").get("next") ?? "0");
  console.log(`open ${queue.lastSequence} ${next}`);
  for (;;) {
    const from = next;
    next += 1 + (byte() % 20);
    const records = Array.from({ length: next - from }, (_, index) => ({
      kind: "log_line",
      observedAtMs: 1,
      source: "crash",
      attributes: { number: `${from + index}` },
      payload: random.bytes(byte() * (byte() % 8 === 0 ? 100 : 1)),
    }));
    await queue.append(records, {
      checkpoints: [{ source: "crash", key: "next", value: `${next}` }],
    });
    console.log(`stored ${next} ${queue.lastSequence}`);
    if (byte() % 4 === 0) {
      const through = queue.lastSequence - (byte() % 30);
      console.log(`acking ${through}`);
      await queue.ack(through);
    }
  }
};

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
