import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { LabPki } from "#scripts/lab/ca/pki.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { findPorts, isListening } from "#scripts/ports.ts";

/** Proxies whose documented configuration is tested. */
export type ProxyName = keyof typeof documented;

/** A proxy in front of a core. */
export type RunningProxy = Awaited<ReturnType<typeof startProxy>>;

/** The paths and ports of a test, which replace those of the documented configuration. */
interface Places {
  dir: string;
  pki: LabPki;
  httpsPort: number;
  ingestProxyPort: number;
  corePort: number;
  ingestPort: number;
  /** Of web; only nginx's configuration has one. */
  webPort?: number;
}

const shared = ({ pki, corePort, ingestPort }: Places) => ({
  "127.0.0.1:8080": `127.0.0.1:${corePort}`,
  "127.0.0.1:8444": `127.0.0.1:${ingestPort}`,
  "/etc/svc/edge.crt": pki.edge.certFile,
  "/etc/svc/enrollment-ca.crt": pki.enrollmentCa.certFile,
});

const documented = {
  nginx: {
    file: "docs/deploy/nginx.conf",
    program: "nginx",
    args: (config: string) => ["-c", config, "-g", "daemon off;"],
    places: (at: Places) => ({
      ...shared(at),
      "127.0.0.1:3000": `127.0.0.1:${at.webPort ?? 1}`,
      "listen 443 ssl": `listen 127.0.0.1:${at.httpsPort} ssl`,
      "listen 8443": `listen 127.0.0.1:${at.ingestProxyPort}`,
      "/etc/svc/edge.key": at.pki.edge.keyFile,
      "/run/nginx.pid": join(at.dir, "nginx.pid"),
      "/var/log/nginx/error.log": join(at.dir, "error.log"),
      "/var/log/nginx/access.log": join(at.dir, "access.log"),
    }),
  },
  haproxy: {
    file: "docs/deploy/haproxy.cfg",
    program: "haproxy",
    args: (config: string) => ["-db", "-f", config],
    places: (at: Places) => ({
      ...shared(at),
      "bind :443": `bind 127.0.0.1:${at.httpsPort}`,
      "bind :8443": `bind 127.0.0.1:${at.ingestProxyPort}`,
    }),
  },
} as const;

/** Reports whether the proxy is installed, as it comes from the distribution only. */
export const isInstalled = (name: ProxyName) =>
  spawnSync(documented[name].program, ["-v"], { stdio: "ignore", timeout: 60_000 }).status === 0;

/**
 * Starts the proxy in front of a core, with its documented configuration in which ports and paths are replaced. Throws if the document
 * lacks one of them. Its files go to `dir`; `pki` has the certificate of the edge.
 */
export const startProxy = async (
  name: ProxyName,
  options: Pick<Places, "dir" | "pki" | "corePort" | "ingestPort" | "webPort">,
) => {
  const { file, program, args, places } = documented[name];
  const [httpsPort, ingestProxyPort] = (await findPorts(2, systemEntropy)) as [number, number];
  let text = await readFile(new URL(`../../${file}`, import.meta.url), "utf8");
  const replaced = new Map(Object.entries(places({ ...options, httpsPort, ingestProxyPort })));
  for (const from of replaced.keys())
    if (!text.includes(from)) throw new Error(`${file} does not contain ${from}`);
  // All at once: a port that was put in may begin like another that is replaced.
  const anyOf = [...replaced.keys()].map((from) => RegExp.escape(from)).join("|");
  text = text.replaceAll(new RegExp(anyOf, "g"), (from) => replaced.get(from) ?? from);
  const config = join(options.dir, `${name}-${httpsPort}.conf`);
  await writeFile(config, text);
  const child = spawn(program, args(config), { stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
  };
  const dead = new AbortController();
  void exited.then(() => dead.abort(new Error(`${name} ended: ${stderr}`)));
  const waiting = { clock: systemClock, signal: dead.signal, everyMs: 10, timeoutMs: 60_000 };
  for (const port of [httpsPort, ingestProxyPort])
    await waitUntil(
      { what: `${name} listens`, ...waiting },
      async () => (await isListening(`127.0.0.1:${port}`)) || undefined,
    ).catch(async (error) => {
      await stop();
      throw error;
    });
  return {
    /** `https://localhost:<port>`. */
    url: `https://localhost:${httpsPort}`,
    /** `localhost:<port>`, forwarded to core's ingest listener. */
    ingestEndpoint: `localhost:${ingestProxyPort}`,
    stop,
  };
};
