import { desc, eq, getTableColumns } from "drizzle-orm";
import { collectorConfig } from "../../drizzle/schema/config.ts";
import type { Executor } from "./database.ts";
import { type Page, type Paged, paged, pageOf } from "./page.ts";

/** A published config's row. */
export type ConfigRow = typeof collectorConfig.$inferSelect;

/** A published config without its text. */
export type ListedConfig = Omit<ConfigRow, "yaml">;

/** Inserts a config. */
export const insertConfig = async (db: Executor, row: ConfigRow): Promise<void> => {
  await db.insert(collectorConfig).values(row);
};

/** The config with this id. */
export const findConfig = async (db: Executor, id: string): Promise<ConfigRow | undefined> => {
  const [row] = await db.select().from(collectorConfig).where(eq(collectorConfig.id, id));
  return row;
};

/** The newest config with this hash. */
export const findNewestConfigByHash = async (db: Executor, configHash: string): Promise<ConfigRow | undefined> => {
  const [row] = await db
    .select()
    .from(collectorConfig)
    .where(eq(collectorConfig.configHash, configHash))
    .orderBy(desc(collectorConfig.createdAt), desc(collectorConfig.id))
    .limit(1);
  return row;
};

/** One page of the configs, without their text. */
export const listConfigs = async (db: Executor, page: Page): Promise<Paged<ListedConfig>> => {
  const { yaml: _, ...columns } = getTableColumns(collectorConfig);
  const { where, orderBy, limit } = pageOf(collectorConfig.id, page, []);
  return paged(await db.select(columns).from(collectorConfig).where(where).orderBy(orderBy).limit(limit), page);
};
