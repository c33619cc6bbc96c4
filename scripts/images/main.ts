/**
 * `bun run images [-- --require-real] [--install] [--work DIR] [--out DIR] [--compose]`: builds the images of core, collector and web and runs them
 * together once. The base is the official image of Node where a registry can be reached, else a stand-in (`BASE=stand-in`, an error
 * with `--require-real`). `--out` writes each image as an OCI layout archive; `--work` keeps podman's files there for the next run;
 * `--compose` also runs compose.yaml with compose.lab.yaml; `--install` installs podman and docker-compose with apt-get. Prints one JSON object with sizes and digests; exit code 1 if a check failed. Without podman
 * it prints `SKIPPED` with the reason, and exits with 0 unless `--require-real`.
 */
import { chmod, mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { reportFromLab } from "../lab/context.ts";
import { prepareBase } from "./base-image.ts";
import { type BuiltImage, buildImage, type ImageName, imageNames, saveImage } from "./build-images.ts";
import { composeTest } from "./compose-test.ts";
import { closeContainerTools, installContainerTools, openContainerTools, whySkipped } from "./container-tools.ts";
import { smokeTest } from "./smoke-test.ts";

const megabyte = 1_000_000;
const bytesMax = 250 * megabyte;

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    "require-real": { type: "boolean", default: false },
    install: { type: "boolean", default: false },
    work: { type: "string" },
    out: { type: "string" },
    compose: { type: "boolean", default: false },
  },
});

const run = async (work: string): Promise<void> =>
  reportFromLab({ name: "images" }, async (context, cleanup) => {
    const { progress, signal } = context;
    // Programs in the images read files below it as their own user.
    await chmod(context.dir, 0o755);
    const tools = await openContainerTools(work);
    cleanup.defer(() => closeContainerTools(tools, values.work !== undefined));
    const base = await prepareBase(tools, { requireReal: values["require-real"], progress });
    const built: Partial<Record<ImageName, BuiltImage>> = {};
    const images: Partial<Record<ImageName, object>> = {};
    if (values.out !== undefined) await mkdir(values.out, { recursive: true });
    for (const name of imageNames) {
      progress(`building ${name}`);
      const image = await buildImage(tools, { name, base, signal });
      const file = values.out && join(resolve(values.out), `svc-${name}-${packageJson.version}.oci.tar`);
      built[name] = image;
      images[name] = { ...image, archive: file ? await saveImage(tools, image, file) : null };
    }
    const small = Object.values(built).every(({ bytes }) => bytes < bytesMax);
    const smoke = await smokeTest(tools, built as Record<ImageName, BuiltImage>, context, cleanup);
    const compose = values.compose ? await composeTest(tools, { base, context, cleanup }) : null;
    const ok = small && smoke.ok && compose?.ok !== false;
    return { ok, version: packageJson.version, base, images, bytes_max: bytesMax, smoke, compose };
  });

const work = values.work === undefined ? await mkdtemp(join(tmpdir(), "images-")) : resolve(values.work);
if (values.install) await installContainerTools(work, (line) => process.stderr.write(`${line}\n`));
const skipped = whySkipped(values.compose);
if (skipped === null) await run(work);
else {
  process.stdout.write(`SKIPPED: ${skipped}\n`);
  process.stdout.write(`${JSON.stringify({ ok: !values["require-real"], skipped })}\n`);
  process.exitCode = values["require-real"] ? 1 : 0;
}
