import type { JSX } from "solid-js";

/** The texts of the fields of a form by their names, without one null. */
export type FormValues = Readonly<Record<string, string | null>>;

/** Fields whose values apply together: with Enter, with the button, and at once with a choice. */
export const FilterForm = (props: {
  class: string;
  onApply: (values: FormValues) => void;
  children: JSX.Element;
}) => (
  <form
    class={props.class}
    onChange={({ target, currentTarget }) =>
      target instanceof HTMLSelectElement && currentTarget.requestSubmit()
    }
    onSubmit={(event) => {
      event.preventDefault();
      const fields = [...new FormData(event.currentTarget)];
      props.onApply(
        Object.fromEntries(fields.map(([name, value]) => [name, String(value).trim() || null])),
      );
    }}
  >
    {props.children}
  </form>
);
