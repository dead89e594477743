/* What plugin_outer.c stands before. */
int which_layer(void);
int which_layer(void) { return 1; }
