import { relations } from "#functions/chat-sql/relations.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";

/** The thresholds of core's default configuration. */
const thresholds = fleetThresholds({ heartbeatIntervalSeconds: 60 });

/** Renders `docs/chat-relations.md`: the relations that the SQL tools of the chat offer, as `describe_table` returns them. */
export const renderChatRelationsPage = (): string => {
  const sections = relations.map(({ name, description, columns, notes }) => {
    const list = columns.map((column) => {
      const unit = column.unit === null ? "" : `, in ${column.unit}`;
      return `- \`${column.name}\` (${column.type}${unit}): ${column.description}`;
    });
    return `## ${name}\n\n${description}\n\n${list.join("\n")}\n\nThe model also reads these notes:\n\n${notes(
      thresholds,
    )
      .map((note) => `- ${note}`)
      .join("\n")}\n`;
  });
  return `# The relations of the chat

What the model can read with the tools \`list_tables\`, \`describe_table\` and \`query_sql\` ([chat-sql.md](chat-sql.md#what-the-model-can-read)), with
the thresholds of the default configuration. Generated from \`functions/chat-sql/\` by \`npx -y bun@1.4.5 run generate\`.

${sections.join("\n")}`;
};
