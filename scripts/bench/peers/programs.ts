import { existsSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { execute } from "#scripts/execute.ts";
import { findProgram } from "#scripts/images/container-tools.ts";
import { oneAtATime } from "#scripts/one-at-a-time.ts";
import { opampServerSource } from "./opamp-server.ts";

/** A program of another project that we compare with. */
export type PeerName = "otelcol" | "telegraf" | "step-ca" | "opamp-server";

/** How a peer is built from the public sources of one version. */
interface Recipe {
  version: string;
  /** Files of the folder in which the commands run. */
  files?: Readonly<Record<string, string>>;
  commands: readonly (readonly [string, ...string[]])[];
  /** The program that the commands leave, within the cache folder. */
  built: string;
}

const collectorVersion = "v0.149.0";
const contrib = "github.com/open-telemetry/opentelemetry-collector-contrib";
const core = "go.opentelemetry.io/collector";

/** Only the parts that the bench uses: what a careful operator of each would build. */
export const recipes: Readonly<Record<PeerName, Recipe>> = {
  otelcol: {
    version: collectorVersion,
    files: {
      "builder.yaml": `dist: {name: otelcol, output_path: source}
receivers:
  - {gomod: ${core}/receiver/otlpreceiver ${collectorVersion}}
  - {gomod: ${contrib}/receiver/filelogreceiver ${collectorVersion}}
processors:
  - {gomod: ${core}/processor/batchprocessor ${collectorVersion}}
exporters:
  - {gomod: ${core}/exporter/otlpexporter ${collectorVersion}}
extensions:
  - {gomod: ${contrib}/extension/storage/filestorage ${collectorVersion}}
`,
    },
    commands: [
      ["go", "install", `${core}/cmd/builder@${collectorVersion}`],
      ["builder", "--config", "builder.yaml"],
    ],
    built: "otelcol/source/otelcol",
  },
  telegraf: {
    version: "v1.37.2",
    commands: [
      [
        "go",
        "install",
        "-tags",
        "custom,inputs.http_listener_v2,outputs.postgresql,parsers.influx",
        "github.com/influxdata/telegraf/cmd/telegraf@v1.37.2",
      ],
    ],
    built: "bin/telegraf",
  },
  "step-ca": {
    version: "v0.30.2",
    commands: [["go", "install", "github.com/smallstep/certificates/cmd/step-ca@v0.30.2"]],
    built: "bin/step-ca",
  },
  "opamp-server": {
    version: "v0.23.0",
    files: {
      "main.go": opampServerSource,
      "go.mod":
        "module bench/opamp-server\n\ngo 1.24\n\nrequire github.com/open-telemetry/opamp-go v0.23.0\n",
    },
    commands: [
      ["go", "mod", "tidy"],
      ["go", "build", "-o", "opamp-server", "."],
    ],
    built: "opamp-server/opamp-server",
  },
};

/** Returns the path of Go, or undefined on a machine without it. */
export const findGo = (path = `${process.env.PATH}${delimiter}/usr/local/go/bin`) =>
  findProgram("go", path);

/** Returns the cache folder of the peers: within `XDG_CACHE_HOME`, never within the repository. */
export const peersFolder = (env: NodeJS.ProcessEnv = process.env): string =>
  join(env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "svc-bench-peers");

/** Returns the path that a peer's program has once it is built. */
export const peerPath = (name: PeerName, folder = peersFolder()): string =>
  join(folder, `${name}-${recipes[name].version}`);

/** Returns the path of a peer's program, built on first use with two processes of the compiler at a time. */
export const buildPeer = async (
  name: PeerName,
  go: string,
  folder = peersFolder(),
): Promise<string> => {
  const { version, files = {}, commands, built } = recipes[name];
  const program = peerPath(name, folder);
  if (existsSync(program)) return program;
  const work = join(folder, name);
  const programs = join(folder, "bin");
  await mkdir(work, { recursive: true });
  await oneAtATime(join(folder, "lock"), async () => {
    if (existsSync(program)) return;
    console.error(`building ${name} ${version}: takes minutes the first time`);
    for (const [file, text] of Object.entries(files)) await writeFile(join(work, file), text);
    const env = {
      ...process.env,
      PATH: [dirname(go), programs, process.env.PATH].join(delimiter),
      GOBIN: programs,
      GOCACHE: join(folder, "build-cache"),
      GOMODCACHE: join(folder, "modules"),
      GOFLAGS: "-p=2 -trimpath",
      CGO_ENABLED: "0",
    };
    for (const [command, ...args] of commands) {
      const file = command === "go" ? go : join(programs, command);
      await execute(file, args, { cwd: work, env, maxBuffer: 64 * 1024 * 1024 });
    }
    await rename(join(folder, built), program);
  });
  return program;
};
