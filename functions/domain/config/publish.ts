import { uuidv7 } from "../../../kit/entropy.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type ConfigRow, findConfig, insertConfig, type ListedConfig, listConfigs } from "../../store/configs.ts";
import type { Page, Paged } from "../../store/page.ts";
import { type Origin, operatorActor, recordAudit } from "../audit/record.ts";
import type { Operator } from "../operator/operator.ts";
import type { CheckedConfig } from "./check.ts";

/** Stores a checked config, byte for byte. The same text may be published again: each publication is a config of its own. */
export const publishConfig = async (
  { db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">,
  operator: Operator,
  { name, config }: { name: string | null; config: CheckedConfig },
  origin: Origin,
): Promise<ConfigRow> =>
  db.transaction(async (tx) => {
    const row: ConfigRow = {
      ...config,
      id: uuidv7({ clock, entropy }),
      name,
      createdAt: new Date(clock.now()),
      createdBy: operator.userId,
    };
    await insertConfig(tx, row);
    await recordAudit(
      tx,
      { clock, entropy },
      {
        actor: operatorActor(operator),
        action: "config.publish",
        target: { type: "collector_config", id: row.id },
        outcome: "success",
        origin,
        details: { name, config_hash: row.configHash, size_bytes: row.sizeBytes },
      },
    );
    return row;
  });

/** The config. 404 `not_found`. */
export const getConfig = async ({ db }: Pick<Core, "db">, id: string): Promise<ConfigRow> => {
  const config = await findConfig(db, id);
  if (config === undefined) throw new Problem("not_found");
  return config;
};

/** One page of the published configs, newest first, without their text. */
export const browseConfigs = ({ db }: Pick<Core, "db">, page: Page): Promise<Paged<ListedConfig>> =>
  listConfigs(db, page);
