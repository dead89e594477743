/* The layer behind plugin_outer.c. */
int which_layer(void);
int which_layer(void) { return 1; }
