const parameter = "chat";
const id = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Returns the conversation that an address shows: its id, or `new`; `open` when the address names none, so that the panel shows its last
 * one; undefined while the panel is closed.
 */
export const conversationOf = (address: string): string | undefined => {
  const shown = new URLSearchParams(address.split("?")[1]).get(parameter);
  if (shown === null) return undefined;
  return shown === "new" || id.test(shown) ? shown : "open";
};

/** Returns a local address with this conversation in its panel; with the panel closed for undefined. */
export const withConversation = (address: string, conversation: string | undefined): string => {
  const [path = "", query] = address.split("?");
  const params = new URLSearchParams(query);
  params.delete(parameter);
  if (conversation !== undefined) params.append(parameter, conversation);
  return params.size === 0 ? path : `${path}?${params}`;
};
