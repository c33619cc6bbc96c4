/**
 * `bun run images [-- --require-real] [--work DIR] [--out DIR] [--twice] [--compose]`: builds the images of core, collector and
 * web for amd64 and arm64 and runs those of this machine together once. The base is the official image of Node where a registry can be reached,
 * else a stand-in (`BASE=stand-in`, an error with `--require-real`). `--out` writes each image as an OCI layout archive. `--twice` builds each
 * again without a cache, and fails unless it has the same digest. `--compose` also runs compose.yaml with compose.lab.yaml. `--work`
 * keeps podman's files for the next run. Prints one JSON object with sizes and digests; exit
 * code 1 if a check failed. Without podman it prints `SKIPPED` with the reason, and exits with 0 unless `--require-real`.
 */
import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import { readCommitTime } from "../bundle/read-head-commit.ts";
import { type LabContext, reportFromLab } from "../lab/context.ts";
import { readCommandOptions } from "../read-command-options.ts";
import { type BaseImage, prepareBase } from "./base-image.ts";
import {
  type BuiltImage,
  buildImage,
  hostArchitecture,
  type ImageName,
  imageArchitectures,
  imageNames,
} from "./build-images.ts";
import { composeTest } from "./compose-test.ts";
import {
  type ContainerTools,
  closeContainerTools,
  openContainerTools,
  whySkipped,
} from "./container-tools.ts";
import { type StoredImage, saveImage } from "./save-image.ts";
import { smokeTest } from "./smoke-test.ts";

const megabyte = 1_000_000;
const bytesMax = 250 * megabyte;

const values = readCommandOptions({
  "require-real": false,
  work: null,
  out: null,
  compose: false,
  twice: false,
});

/** Builds an image for each architecture, and saves them as one archive. */
const buildForAll = async (
  tools: ContainerTools,
  { file, ...image }: { name: ImageName; base: BaseImage; file: string; fresh: boolean },
  { progress, signal }: LabContext,
) => {
  const stored: (BuiltImage & StoredImage)[] = [];
  for (const architecture of imageArchitectures) {
    progress(`building ${image.name} for ${architecture}${image.fresh ? " again" : ""}`);
    stored.push({ ...(await buildImage(tools, { ...image, signal, architecture })), architecture });
  }
  const saved = await saveImage(tools, { images: stored, file, timestamp: readCommitTime() });
  return { stored, ...saved };
};

/** Builds each image, `--twice` again from nothing; `differing` are those whose second archive is another. */
const buildImages = async (
  tools: ContainerTools,
  { base, out }: { base: BaseImage; out: string },
  context: LabContext,
) => {
  const built: Partial<Record<ImageName, BuiltImage>> = {};
  const images: Partial<Record<ImageName, object>> = {};
  const differing: ImageName[] = [];
  let small = true;
  const buildAll = (name: ImageName, file: string, fresh: boolean) =>
    buildForAll(tools, { name, base, file, fresh }, context);
  for (const name of imageNames) {
    const file = join(out, `svc-${name}-${packageJson.version}.oci.tar`);
    const { stored, digest, bytes } = await buildAll(name, file, false);
    for (const image of stored) {
      if (image.architecture === hostArchitecture) built[name] = image;
      small &&= image.bytes < bytesMax;
    }
    images[name] = {
      architectures: stored,
      digest,
      archive: values.out === undefined ? null : { file, bytes },
    };
    if (!values.twice) continue;
    const again = await buildAll(name, `${file}.again`, true);
    if (again.digest === digest) await rm(again.file);
    else differing.push(name);
  }
  return { built, images, differing, small };
};

const run = async (work: string): Promise<void> =>
  reportFromLab({ name: "images" }, async (context, cleanup) => {
    const { progress } = context;
    // Programs in the images read files below it as their own user.
    await chmod(context.dir, 0o755);
    const tools = await openContainerTools(work);
    cleanup.defer(() => closeContainerTools(tools, values.work !== undefined));
    const base = await prepareBase(tools, { requireReal: values["require-real"], progress });
    const out = resolve(values.out ?? join(context.dir, "archives"));
    await mkdir(out, { recursive: true });
    const { built, images, differing, small } = await buildImages(tools, { base, out }, context);
    const smoke = await smokeTest(tools, built as Record<ImageName, BuiltImage>, context, cleanup);
    const compose = values.compose ? await composeTest(tools, { base, context, cleanup }) : null;
    const ok = small && smoke.ok && compose?.ok !== false && differing.length === 0;
    const builds = values.twice ? 2 : 1;
    return {
      ok,
      version: packageJson.version,
      base,
      images,
      builds,
      differing,
      bytes_max: bytesMax,
      smoke,
      compose,
    };
  });

const skipped = whySkipped(values.compose);
if (skipped === null)
  await run(values.work ? resolve(values.work) : await mkdtemp(join(tmpdir(), "images-")));
else {
  console.log(`SKIPPED: ${skipped}`);
  console.log(JSON.stringify({ ok: !values["require-real"], skipped }));
  process.exitCode = values["require-real"] ? 1 : 0;
}
