/**
 * `bun run screenshots [-- NAME…]`: writes the pictures in `docs/images/`, or those whose names begin so, of the built user interface
 * with a fleet and a time that are the same in each run, and records the navigation that they show. Pictures differ between machines in
 * their fonts.
 */
import { generateKeyPairSync } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { createReceiptSigner } from "#functions/domain/chat/receipt-signer.ts";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { createMockInference } from "#functions/inference/create-mock-inference.ts";
import { systemClock } from "#kit/clock.ts";
import { launchBrowser } from "../lab/browser.ts";
import { buildUi } from "../lab/built-ui.ts";
import { createInProcessCore } from "../lab/in-process-core.ts";
import { openWeb } from "../lab/in-process-web.ts";
import { seedPeople } from "../lab/people.ts";
import { seededRolloutId, seedRollouts } from "../lab/seed-rollouts.ts";
import { visitPage } from "../lab/visit-page.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { pictureFleet } from "./fleet.ts";
import { picturedPlacesPath, placesDigest } from "./pictured-places.ts";

const bytesMax = 200 * 1024;

interface Picture {
  name: string;
  path: string;
  height: number;
  width?: number;
  /** Text that the complete page shows. */
  ready: string;
  /** Brings the opened page into the state to show. */
  enter?: (page: Page) => Promise<unknown>;
}

/** Asks a question, and opens its query. */
const askInChat = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Which hosts need attention, and why?" }).click();
  await page.locator(".receipt > summary", { hasText: "Verified" }).waitFor();
  await page.locator(".tool-call > summary").last().click();
};

/** The pictures that pages show, of a fleet in which the drawer opens for a host. */
const picturesOf = (identityId: string): readonly Picture[] => [
  {
    name: "fleet-light",
    path: "/fleet?sort=certificate_not_after",
    height: 800,
    ready: "heartbeating",
  },
  {
    name: "fleet-drawer",
    path: `/fleet?id=${identityId}`,
    width: 1100,
    height: 980,
    ready: "assigned the config",
  },
  {
    name: "chat",
    path: "/fleet?chat=new",
    width: 1280,
    height: 800,
    ready: "Ask about hosts",
    enter: askInChat,
  },
  {
    name: "rollout",
    path: `/changes/rollouts/${seededRolloutId("paused")}?wave=2`,
    height: 1300,
    ready: "started wave 2",
  },
];

const now = Date.UTC(2026, 0, 15, 12);

/** Opens a core with the chat agent, whose model is a mock, and web in front of it. */
const openStage = async (database: EmbeddedDatabase, cleanup: AsyncDisposableStack) => {
  await seedPeople(database.db, now);
  const core = createInProcessCore({
    db: database.db,
    clock: { ...systemClock, now: () => now },
    env: { SVC_COLLECTOR_MIN_VERSION: "1.4.0" },
  });
  const { createChatSql } = await import("#functions/chat-sql/create-chat-sql.ts");
  const { sql, offReason } = await createChatSql({
    db: database.db,
    locate: async () => database.url,
    url: null,
    secret: core.config.authTokenSecret.reveal(),
    thresholds: fleetThresholds(core.config),
    readRules: () => readFleetRules(core),
    revokePublic: false,
  });
  cleanup.defer(() => sql?.close());
  const { privateKey } = generateKeyPairSync("ed25519");
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const chat: Chat = {
    inference: createMockInference("mock"),
    sql,
    sqlOffReason: offReason,
    signer: await createReceiptSigner({ pem, id: "receipts-2026" }),
    stopping: new AbortController().signal,
  };
  const web = await openWeb({ ...core, chat }, { url: database.url, ui: await buildUi() });
  cleanup.defer(() => web.close());
  return { core, web };
};

const take = async (
  stage: Parameters<typeof visitPage>[0],
  { name, path, width = 1440, height, ready, enter }: Picture,
): Promise<void> => {
  const { page } = await visitPage(stage, "auditor", path, { width, height, now });
  await page.getByText(ready).first().waitFor();
  await enter?.(page);
  await page.waitForLoadState("networkidle");
  const picture = await page.screenshot({ animations: "disabled", caret: "hide" });
  await page.context().close();
  const file = `docs/images/${name}.png`;
  if (picture.length > bytesMax) throw new Error(`${file} has ${picture.length} bytes`);
  await writeFile(file, picture);
  await recordPlaces(file);
  console.log(`${file}: ${Math.round(picture.length / 1024)} KiB`);
};

/** Records that a picture shows the present navigation. */
const recordPlaces = async (file: string): Promise<void> => {
  const taken = JSON.parse(await readFile(picturedPlacesPath, "utf8"));
  taken[file] = placesDigest();
  await writeFile(picturedPlacesPath, `${JSON.stringify(taken, null, 2)}\n`);
};

const takePictures = async (wanted: readonly string[]): Promise<void> => {
  await using cleanup = new AsyncDisposableStack();
  const database = cleanup.use(await openEmbeddedDatabase());
  const browser = cleanup.adopt(await launchBrowser(), (opened) => opened.close());
  const { core, web } = await openStage(database, cleanup);
  const fleet = await pictureFleet(database, 312);
  if (fleet.now !== now) throw new Error("the fleet has another timestamp");
  await seedRollouts(database.db, { now: new Date(now), entropy: core.entropy });
  for (const picture of picturesOf(fleet.identityId))
    if (wanted.length === 0 || wanted.some((start) => picture.name.startsWith(start)))
      await take({ browser, web }, picture);
};

await takePictures(process.argv.slice(2));
