/** What happens to exporters and their backend, drawn from the seed. */
import { type Backend, type BackendMood, usualBackend } from "./backend.ts";
import { type Fault, seconds } from "./faults.ts";
import type { Lab } from "./simulate.ts";

/** Changes one thing of the backend for a while; of several changes the last one counts. */
const forAWhile = <Key extends keyof typeof usualBackend>(
  lab: Lab,
  key: Key,
  value: Backend[Key],
) => {
  const { backend, world } = lab;
  backend[key] = value;
  const turn = ++backend.turns[key];
  world.after(seconds(lab, 1, 30), () => {
    if (backend.turns[key] === turn) Object.assign(backend, { [key]: usualBackend[key] });
  });
};

const moodFault =
  (mood: BackendMood): Fault =>
  (lab) =>
    forAWhile(lab, "mood", mood);

const rejectHost =
  (how: "rejectedHosts" | "partialHosts"): Fault =>
  (lab) => {
    const { hostId } = lab.world.chance.pick(lab.hosts);
    lab.backend[how].add(hostId);
    lab.world.after(seconds(lab, 1, 20), () => void lab.backend[how].delete(hostId));
  };

const endExporter =
  (how: "kill" | "stop"): Fault =>
  (lab) => {
    const index = lab.world.chance.integer(0, lab.exporters.length - 1);
    lab.endExporter(index, how, seconds(lab, 0, 15));
  };

/** The faults by name. */
export const exportFaults: Readonly<Record<string, Fault>> = {
  "an exporter is killed": endExporter("kill"),
  "an exporter is stopped": endExporter("stop"),
  "an exporter is suspended": (lab) => {
    lab.world.chance.pick(lab.exporters).process.suspendedUntil =
      lab.world.now() + seconds(lab, 1, 20);
  },
  "an exporter's clock jumps": (lab) => {
    lab.world.chance.pick(lab.exporters).process.clockOffsetMs =
      lab.world.chance.integer(-40, 40) * 86_400_000;
  },
  "the backend is down": moodFault("down"),
  "the backend loses its answers": moodFault("loses answers"),
  "the backend is silent": moodFault("silent"),
  "the backend is slow": moodFault("slow"),
  "the backend is busy": moodFault("busy"),
  "a proxy answers for the backend": moodFault("failing"),
  "the backend takes no credentials": moodFault("unauthorized"),
  "a sign-in page answers for the backend": moodFault("a sign-in page"),
  "the backend rejects a host": rejectHost("rejectedHosts"),
  "the backend rejects the items of a host": rejectHost("partialHosts"),
  "requests arrive at the backend twice": (lab) => forAWhile(lab, "isDoubled", true),
  "the way to the backend is slow": (lab) => forAWhile(lab, "delayMs", [500, 12_000]),
};
