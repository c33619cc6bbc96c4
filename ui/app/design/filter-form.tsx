import { type JSX, splitProps } from "solid-js";

/** The texts of the fields of a form by their names, without one null. */
export type FormValues = Readonly<Record<string, string | null>>;

/** One text to search by, and its button. */
export const SearchForm = (
  props: JSX.InputHTMLAttributes<HTMLInputElement> & {
    button: string;
    onSearch: (text: string | null) => void;
  },
) => {
  const [own, input] = splitProps(props, ["button", "onSearch"]);
  return (
    <FilterForm class="search-form" onApply={({ q = null }) => own.onSearch(q)}>
      <input
        class="input"
        type="search"
        name="q"
        autocomplete="off"
        spellcheck={false}
        {...input}
      />
      <button class="button" type="submit">
        {own.button}
      </button>
    </FilterForm>
  );
};

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
